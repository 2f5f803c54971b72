"""Automation and the network: webhook, forward."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...automation.forwarder import TIMEOUT_S, Forwarder, Subscription
from ...automation.forwarding_targets import Target
from ...schema.errors import InvalidInput, NotFound
from ...schema.stop_limit import end_by, obey
from ...subscribers.inboxes.failed_deliveries import Cursors
from ...subscribers.inboxes.inbox import MAX_DELIVERIES
from .. import arguments
from ..definition import Commands, optional
from ..options.common import (
    HERE,
    SECRETS_VARIABLE,
    TYPE_HELP,
    BusPlaceOnly,
    seq_or_word,
    signing_keys,
)
from ..options.payload import raw_argument
from ..options.service import SERVICE, ServicePlace
from ..show.output import Output, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...automation.config.models import Config, WebhookEndpoint, WebhooksConfig

commands = Commands()
webhook = commands.group("webhook", help="Webhooks: signed requests of others that begin jobs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name or the path of the webhook.")]

#: The status of a request that was taken.
_ACCEPTED = 202


@webhook.command("list", example="bus webhook list")
def show_list(place: ServicePlace = SERVICE) -> int:
    """List the webhooks of the configuration. Exit code 4 when there are none."""
    webhooks = _of(place.look().config)
    names = ("webhook", "url", "becomes", "signature")
    rows = [
        (
            endpoint.name,
            f"http://{webhooks.listen}{endpoint.path}",
            endpoint.target,
            endpoint.signature_format,
        )
        for endpoint in webhooks.endpoints
    ]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return place.output.results(records, rows, names)


@webhook.command("show", example="bus webhook show github --json")
def show(name: Name, place: ServicePlace = SERVICE) -> int:
    """Print the settings of a webhook, without its secrets."""
    from ...automation.config.redaction import shown

    config = place.look().config
    webhooks = _of(config)
    endpoint = _named(webhooks, name)
    (settings,) = (
        entry for entry in shown(config)["webhooks"]["endpoints"] if entry["path"] == endpoint.path
    )
    record: dict[str, Any] = {
        "url": f"http://{webhooks.listen}{endpoint.path}",
        "becomes": endpoint.target,
    }
    record |= settings
    lines = [
        f"{key}: {value if isinstance(value, str) else json_text(value)}"
        for key, value in record.items()
        if value is not None
    ]
    place.output.result(record, *lines)
    return 0


@webhook.command("test", example="""bus webhook test github --data '{"ref": "refs/heads/main"}'""")
def try_out(
    name: Name,
    data: Annotated[
        str | None,
        optional("TEXT", "The body, - for stdin, or @FILE. Default: a JSON object.", "--data"),
    ] = None,
    delivery: Annotated[
        str | None, optional("ID", "The id of the delivery. Default: a new one.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the request, and send nothing.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Send a signed request to a webhook, and print the answer.

    It is signed with the secret of the configuration, and real: a job that it begins runs. Exit
    code 1 when it was refused, 4 when no service listens.
    """
    from ...automation.webhooks import trial
    from ...schema.message.names import new_id
    from ...schema.message.times import now_ms
    from ..running.service_call import post

    webhooks = _of(place.snapshot().config)
    endpoint = _named(webhooks, name)
    body = None if data is None else raw_argument(data)
    headers, body = trial(endpoint, body, delivery=delivery or new_id(), now_s=now_ms() / 1000)
    record: dict[str, Any] = {"webhook": endpoint.name, "headers": headers}
    if dry_run:
        text = body.decode(errors="replace")
        lines = [f"POST {endpoint.path}", *(f"{key}: {value}" for key, value in headers.items())]
        place.output.result(record | {"body": text, "dry_run": True}, *lines, "", text)
        return 0
    status, reply = post(webhooks.listen, endpoint.path, headers, body)
    place.output.result(record | {"status": status, "answer": reply}, f"{status} {reply}".rstrip())
    return 0 if status == _ACCEPTED else 1


def _of(config: Config) -> WebhooksConfig:
    from ...automation.config.models import WebhooksConfig

    return config.webhooks or WebhooksConfig()


def _named(webhooks: WebhooksConfig, name: str) -> WebhookEndpoint:
    from ...automation.config.values import near

    for endpoint in webhooks.endpoints:
        if name in (endpoint.name, endpoint.path):
            return endpoint
    hint = near(name, [endpoint.name for endpoint in webhooks.endpoints])
    raise NotFound(f"there is no webhook {name!a}{hint}; see 'bus webhook list'")


# Forwarding: post messages to a URL.

#: The signals that end it after the request under way; a second one ends it at once.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Where a new subscription begins: a whole history is seldom what a receiver expects.
_NOW = "now"


@dataclass(frozen=True, kw_only=True)
class FailureOptions:
    """The options about requests that fail."""

    max_deliveries: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Park a message after so many failed deliveries."),
    ] = MAX_DELIVERIES
    retry_pause: Annotated[
        str,
        typer.Option(
            metavar="S", help="The first pause after a failure, like 500ms; doubles up to a minute."
        ),
    ] = "1s"
    timeout: Annotated[
        str, typer.Option(metavar="S", help="How long a request may take: seconds, or like 10s.")
    ] = f"{TIMEOUT_S:g}s"

    @property
    def retry_pause_s(self) -> float:
        """The first pause, in seconds."""
        return _positive(self.retry_pause, "--retry-pause")

    @property
    def timeout_s(self) -> float:
        """The limit of a request, in seconds."""
        return _positive(self.timeout, "--timeout")


#: The default of a parameter, which Python requires.
_FAILURE_DEFAULTS = FailureOptions()


@commands.command(
    "forward",
    example="bus forward https://ci.example.org/hook --agent ci-hook --type 'task.>' "
    "--secret-file hook.secret",
)
def forward(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to, like https://host/path.")],
    agent: Annotated[
        str,
        typer.Option(metavar="A", help="The subscription: a name of its own, which has a cursor."),
    ],
    types: Annotated[
        list[str] | None, optional("P", f"{TYPE_HELP} It may be repeated.", "--type")
    ] = None,
    secret_file: Annotated[
        str | None,
        optional(
            "F",
            "The file with the secrets (whsec_…), one a line, for you alone to read; each signs. "
            f"Default: the secrets in ${SECRETS_VARIABLE}.",
        ),
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private",
            help="Allow addresses that are not public, such as this machine's, and http://.",
        ),
    ] = False,
    start: Annotated[
        str,
        typer.Option(metavar="S", help="Where a new one begins: now, beginning, or a seq."),
    ] = _NOW,
    drain: Annotated[bool, typer.Option("--drain", help="End when nothing is left.")] = False,
    failures: FailureOptions = _FAILURE_DEFAULTS,
    place: BusPlaceOnly = HERE,
) -> int:
    """Post messages to a URL, each until it is taken, in order.

    Each is a CloudEvent (application/cloudevents+json), signed by Standard Webhooks; webhook-id is
    the same however often it is posted. An answer 2xx acknowledges it. One of 400, 409, 413, 415,
    422, 500, 501 is about the message, which is parked after some ('bus parked list A'); 410 ends
    with exit code 3; after any other, and after none, the message waits and is posted again, for
    3 h, which counts as a failed delivery. Redirects are not followed. SIGTERM and Ctrl-C end it
    after the request under way. Exit code 3 as well while another process forwards for A.
    """
    target = Target.parse(url, allow_private=allow_private)
    retry_pause_s, timeout_s = failures.retry_pause_s, failures.timeout_s
    place.output.show_logs()
    with place.open() as bus:
        keys = signing_keys(secret_file)
        subscription = Subscription(
            bus,
            agent,
            types or (),
            max_deliveries=failures.max_deliveries,
            retry_pause_s=retry_pause_s,
        )
        is_new = agent not in Cursors.of(bus).positions()
        _join(place.output, subscription, agent, start, is_new=is_new)
        forwarder = Forwarder(subscription, target, keys, timeout_s=timeout_s)
        _stop_by_signal(forwarder)
        forwarder.run(drain=drain)
    return 0


def _join(
    output: Output, subscription: Subscription, agent: str, start: str, *, is_new: bool
) -> None:
    """Begin a subscription; note where, if --start comes too late or skips messages."""
    if start != _NOW and not is_new:
        output.note(f"{agent} goes on after message {subscription.position}: it is not new")
    subscription.join(start=seq_or_word(start))
    if start == _NOW and is_new and subscription.position:
        output.note(
            f"{agent} is new and begins after message {subscription.position};"
            " --start beginning posts earlier ones, too"
        )


def _positive(text: str, option: str) -> float:
    seconds = arguments.seconds(text, option)
    if not seconds:
        raise InvalidInput(f"{option} must be more than 0")
    return seconds


def _stop_by_signal(forwarder: Forwarder) -> None:
    """End well by a first signal, and at once by a second one."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, lambda second, frame: end_by(second))
        forwarder.stop()

    obey(stop, *_SIGNALS)
