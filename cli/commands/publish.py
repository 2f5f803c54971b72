"""Publishing: one message, or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..fast import actions
from ..options.common import HERE, Place
from ..options.message_headers import message_headers
from ..options.payload import STDIN
from ..running.bulk_publish import publish_lines

commands = Commands()


Type = Annotated[str | None, optional_word("TYPE", "Dotted words, like task.done.")]
Body = Annotated[
    str | None, optional_word("BODY", "Text; - reads it from stdin. Default: what is piped in.")
]
Data = Annotated[
    str | None,
    optional("JSON", "The payload as JSON, instead of BODY; - reads stdin, @FILE a file."),
]
File = Annotated[
    str | None, optional("F", "Read the text of the payload from a file, instead of BODY.")
]
From = Annotated[str | None, optional("A", "The sender. Default: $BUS_AGENT.", "--from")]
To = Annotated[
    list[str] | None,
    optional("B", "The recipient; may be repeated: each gets a message. Default: all.", "--to"),
]
Id = Annotated[
    str | None,
    optional("ID", "The message's id: publishing it again with the same content stores nothing."),
]
ReplyTo = Annotated[
    str | None, optional("ID|SEQ", "The id or seq of the message that this answers.")
]
Conversation = Annotated[
    str | None,
    optional("C", "The conversation. Default: that of the message answered, or a new one."),
]
PriorityName = Annotated[str, typer.Option(metavar="P", help="interactive, normal or background.")]
Header = Annotated[list[str] | None, optional("K=V", "A header; may be repeated.")]
HeadersJson = Annotated[
    str | None, optional("JSON", "Headers as a JSON object; @FILE reads a file.")
]
Meta = Annotated[
    list[str] | None,
    optional("K=V", "Metadata, in the header meta: JSON, or else text; may be repeated."),
]
Delay = Annotated[
    str | None, optional("D", "Queues delay it for so long: seconds, or like 500ms, 10m, 2h.")
]
At = Annotated[str | None, optional("T", "Queues delay it until a time like 2026-01-10T14:00:00Z.")]
DedupeKey = Annotated[
    str | None,
    optional(
        "K",
        "Names the work: queues run one job with a key at a time, and skip a job whose key "
        "succeeded within their window.",
    ),
]
DedupeWindow = Annotated[
    str | None,
    optional(
        "D",
        "Instead of the queue's window; skips it also while a job with its key waits or runs.",
    ),
]
WaitForRoom = Annotated[
    str | None,
    optional("S", "How long to wait for room where a queue or an inbox is full.", "--wait"),
]
PayloadRef = Annotated[
    str | None, optional("REF", "The name of a blob in the store, instead of BODY.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a recipient that the bus has never seen.")
]
Jsonl = Annotated[
    bool,
    typer.Option(
        "--jsonl",
        help="Publish many: one JSON object a line, from a file named in place of TYPE, or "
        "from stdin; 1,000 in one transaction.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Content:
    """The options of any message: its payload, sender and id."""

    body: Body = None
    data: Data = None
    file: File = None
    from_agent: From = None
    id: Id = None


@dataclass(frozen=True, kw_only=True)
class Publication(Content):
    """The options of one published message."""

    to_agents: To = None
    reply_to: ReplyTo = None
    conversation: Conversation = None
    priority: PriorityName = "normal"
    header: Header = None
    headers: HeadersJson = None
    meta: Meta = None
    delay: Delay = None
    at: At = None
    dedupe_key: DedupeKey = None
    dedupe_window: DedupeWindow = None
    payload_ref: PayloadRef = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `actions.publish`.

        Raises:
            InvalidInput: a header is malformed, or two contradict each other.
        """
        if self.delay is not None and self.at is not None:
            raise InvalidInput("give --delay or --at, not both")
        given = vars(self).copy()
        delay = given.pop("delay")
        wishes = ("headers", "meta", "at", "dedupe_key", "dedupe_window")
        headers = message_headers(**{name: given.pop(name) for name in wishes})
        delay_s = None if delay is None else arguments.seconds(delay, "--delay")
        lists = {"header": self.header or (), "to_agents": self.to_agents or ()}
        return given | lists | {"headers": headers, "delay_s": delay_s}


@commands.command(
    "publish", example="bus publish task.assign 'Review the parser' --from lead --to worker-1"
)
def publish(
    type: Type = None,
    *,
    message: Publication,
    strict: Strict = False,
    wait: WaitForRoom = None,
    jsonl: Jsonl = False,
    place: Place = HERE,
) -> int:
    """Publish a message and print its id.

    With several --to each agent gets one, in one conversation. Exit code 3 when a queue or an inbox
    that it goes to is still full after --wait.
    """
    if jsonl:
        sender = message.from_agent
        if message != Publication(from_agent=sender) or wait is not None:
            raise InvalidInput("--jsonl goes with FILE, --from, --strict and --json only")
        with place.open() as bus:
            return publish_lines(bus, type or STDIN, sender=sender, strict=strict)
    if type is None:
        raise InvalidInput("give the TYPE of the message; see 'bus publish --help'")
    return actions.publish(
        type,
        **message.arguments(),
        strict=strict,
        wait_s=0.0 if wait is None else arguments.seconds(wait, "--wait"),
        directory=place.directory,
        user=place.user,
    )
