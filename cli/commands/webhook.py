"""Webhooks: list, show, test."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...schema.errors import NotFound
from ..definition import Commands, optional
from ..options.payload import raw_argument
from ..options.service import SERVICE, ServicePlace
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.config.snapshot import Config
    from ...automation.config.webhooks import WebhookEndpoint, WebhooksConfig

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
        (each.name, f"http://{webhooks.listen}{each.path}", each.target, each.signature_format)
        for each in webhooks.endpoints
    ]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return output.results(records, rows, names)


@webhook.command("show", example="bus webhook show github --json")
def show(name: Name, place: ServicePlace = SERVICE) -> int:
    """Print the settings of a webhook, without its secrets."""
    from ...automation.config.redaction import shown

    config = place.look().config
    webhooks = _of(config)
    endpoint = _named(webhooks, name)
    (settings,) = (
        each for each in shown(config)["webhooks"]["endpoints"] if each["path"] == endpoint.path
    )
    record: dict[str, Any] = {
        "url": f"http://{webhooks.listen}{endpoint.path}",
        "becomes": endpoint.target,
    }
    record |= settings
    lines = [
        f"{key}: {value if isinstance(value, str) else output.json_text(value)}"
        for key, value in record.items()
        if value is not None
    ]
    output.result(record, *lines)
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
    from ...automation.webhooks.trials import trial
    from ...schema.message.ids import new_id
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
        output.result(record | {"body": text, "dry_run": True}, *lines, "", text)
        return 0
    status, told = post(webhooks.listen, endpoint.path, headers, body)
    output.result(record | {"status": status, "answer": told}, f"{status} {told}".rstrip())
    return 0 if status == _ACCEPTED else 1


def _of(config: Config) -> WebhooksConfig:
    from ...automation.config.webhooks import WebhooksConfig

    return config.webhooks or WebhooksConfig()


def _named(webhooks: WebhooksConfig, name: str) -> WebhookEndpoint:
    from ...automation.config.faults import near

    for each in webhooks.endpoints:
        if name in (each.name, each.path):
            return each
    known = near(name, [each.name for each in webhooks.endpoints])
    raise NotFound(f"there is no webhook {name!a}{known}; see 'bus webhook list'")
