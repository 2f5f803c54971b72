"""Publishing: publish, request, check, notify."""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
import typer

from ...schema.errors import AckbusError, BusBusy, InvalidInput, NotFound
from ...schema.message.draft import parse_priority
from ...schema.message.times import format_ts
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..fast import actions
from ..options.common import HERE, BusPlace, BusPlaceOnly, since_time
from ..options.payload import META, STDIN, message_headers, parse_meta, payload_of, wait_for_input
from ..running.bulk_publish import publish_lines
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message
    from ...subscribers.answers import Answer
    from ...subscribers.requests import Request

commands = Commands()


Type = Annotated[str | None, optional_word("TYPE", "Dotted words, like build.done.")]
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
class MessageContent:
    """The options of any message: its payload, sender and id."""

    body: Body = None
    data: Data = None
    file: File = None
    from_agent: From = None
    id: Id = None


@dataclass(frozen=True, kw_only=True)
class Publication(MessageContent):
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
        values = vars(self).copy()
        delay = values.pop("delay")
        header_options = ("headers", "meta", "at", "dedupe_key", "dedupe_window")
        headers = message_headers(**{name: values.pop(name) for name in header_options})
        delay_s = None if delay is None else arguments.seconds(delay, "--delay")
        lists = {"header": self.header or (), "to_agents": self.to_agents or ()}
        return values | lists | {"headers": headers, "delay_s": delay_s}


@commands.command(
    "publish", example="bus publish review.assign 'Review the parser' --from lead --to worker-1"
)
def publish(
    type: Type = None,
    *,
    message: Publication,
    strict: Strict = False,
    wait: WaitForRoom = None,
    jsonl: Jsonl = False,
    place: BusPlace = HERE,
) -> int:
    """Publish a message and print its id.

    TYPE says what it is about. Without --to every agent finds it in its inbox, or, where a queue
    takes its TYPE, one worker gets it; with --to that agent alone. With several --to each gets one,
    in one conversation. Exit code 3 when a queue or an inbox that it goes to is still full after
    --wait.
    """
    if jsonl:
        sender = message.from_agent
        if message != Publication(from_agent=sender) or wait is not None:
            raise InvalidInput("--jsonl goes with FILE, --from, --strict and --json only")
        with place.open(exports_all=True) as bus:
            return publish_lines(place.output, bus, type or STDIN, sender=sender, strict=strict)
    if type is None:
        raise InvalidInput("give the TYPE of the message; see 'bus publish --help'")
    return actions.publish(
        place.output,
        type,
        **message.arguments(),
        strict=strict,
        wait_s=0.0 if wait is None else arguments.seconds(wait, "--wait"),
        directory=place.directory,
        user=place.user,
    )


# Conversations: request an answer and wait for it, check for one, be notified of it.

RequestType = Annotated[
    str, typer.Argument(metavar="TYPE", help="Dotted words, like review.request.")
]
AskedOne = Annotated[
    str | None, optional("B", "The agent that is asked. Default: any worker.", "--to")
]
SuccessType = Annotated[
    str | None,
    optional("S", "The type of the answer after success. Default: of x.request, x.done."),
]
FailureType = Annotated[
    str | None,
    optional(
        "F",
        "The type of the answer after a failure. Default: of x.request, x.failed. "
        "After a timeout: the request's type and .timed_out.",
    ),
]
Timeout = Annotated[
    str | None,
    optional("S", "How long to wait: seconds, or like 500ms, 10m, 2h. Default: for ever."),
]


@dataclass(frozen=True, kw_only=True)
class AnswerTypes:
    """The types of the answers to a request."""

    success_type: SuccessType = None
    failure_type: FailureType = None


@commands.command("request", example="bus request review.request 'Review the parser' --from ann")
def ask(
    type: RequestType,
    *,
    content: MessageContent,
    to_agent: AskedOne = None,
    priority: PriorityName = "normal",
    answers: AnswerTypes,
    wait: WaitForRoom = None,
    timeout: Timeout = None,
    meta: Meta = None,
    place: BusPlace = HERE,
) -> int:
    """Publish a request, wait for its first answer, and print that.

    An answer is a message in the conversation of the request. To ask several agents, publish to
    them, and 'bus check' the id of each. Without BODY, the body is read from
    a pipe or a file on stdin. The ids of the message and its conversation go to stderr at once,
    the body of the answer to stdout. If no live worker serves TYPE, and there is no --to, a
    warning says so at once, and the command waits all the same. Exit code 1 when the answer is a
    failure or a timeout of the work, 5 when there was no answer in time; it can still come, and
    'bus check' shows it. With --id the same command is safe to repeat: it publishes no second
    request, and finds the first answer. New messages wake the waiter, and it looks every 250 ms
    anyway. Exit code 3 when a queue or an inbox that the request goes to is still full after
    --wait.
    """
    from ...subscribers.answers import receive
    from ...subscribers.requests import Request

    timeout_s = None if timeout is None else arguments.seconds(timeout, "--timeout")
    sender = arguments.sender(content.from_agent)
    payload = payload_of(_or_stdin(content), content.data, content.file, None)
    with place.open(lives_long=True) as bus:
        bus.agents.refuse_several(sender)
        arguments.note_other_form(place.output, bus, type)
        sent = Request.send(
            bus,
            type,
            payload,
            from_agent=sender,
            to_agent=to_agent,
            id=content.id,
            priority=parse_priority(priority),
            headers={META: parse_meta(meta)} if meta else None,
            wait_s=0.0 if wait is None else arguments.seconds(wait, "--wait"),
            **vars(answers),
        )
        _print_ids(place.output, sent, type)
        answer = sent.until_answered(timeout_s)
        assert answer.reply is not None
        if place.output.is_json:
            place.output.json_line(_record(answer))
        else:
            _print_payload(place.output, answer.reply)
        place.output.flush()
        receive(bus, answer, sent.asker)
    return 1 if answer.failed else 0


@commands.command("check", example="bus check 0197c0de-0000-7000-8000-000000000001")
def show_answer(
    conversation: Annotated[
        str,
        typer.Argument(
            metavar="CONVERSATION",
            help="Its id, which bus request printed on stderr, or the seq of a message in it: "
            "of one request, where it has several.",
        ),
    ],
    answers: AnswerTypes,
    first: Annotated[
        bool,
        typer.Option(
            "--first", help="Of several answers the first, as bus request does; not the last."
        ),
    ] = False,
    place: BusPlace = HERE,
) -> int:
    """Print whether a request has been answered, and how.

    It doesn't wait. The types of the answers follow from the type of the request. Where there is
    none of these, a reply of another type from the asked agent counts: the state is answered, or
    what the ending of its type says. Where an agent has answered it twice, all answers are listed.
    Exit code 0 also when it is pending, 1 after a failure or a timeout of the work, 4 when no
    message is in the conversation. If BUS_AGENT names the agent that asked, the answer leaves its
    inbox when it is printed.
    """
    from ...bus.log.log import near_ids
    from ...subscribers.answers import answer_in, double_answers, named, receive

    with place.open() as bus:
        which: Literal["first", "last"] = "first" if first else "last"
        key = named(bus, conversation)
        if key is None:
            hint = near_ids(bus, conversation)
            raise NotFound(f"no message in a conversation {conversation!a}{hint}; see 'bus read'")
        answer = answer_in(bus, key, which=which, **vars(answers))
        several = [_short(reply) for reply in double_answers(bus, key, **vars(answers))]
        record = _record(answer) | ({"answers": several} if several else {})
        place.output.result(record, _state_line(answer, bus.now_ms()), *map(_answer_line, several))
        if answer.reply is not None and not place.output.is_json:
            _print_payload(place.output, answer.reply)
        place.output.flush()
        receive(bus, answer, arguments.actor(None))
    return 1 if answer.failed else 0


@commands.command("notify", example="bus notify --every 10s")
def notify(
    once: Annotated[
        bool, typer.Option("--once", help="Look once, instead of again and again until Ctrl-C.")
    ] = False,
    every: Annotated[str, typer.Option(metavar="S", help="How often to look.")] = "2s",
    since: Annotated[
        str,
        typer.Option(
            metavar="T",
            help="On the first look at a bus, how old an answer may be. Later looks notify of all "
            "answers since the one before.",
        ),
    ] = "1h",
    place: BusPlaceOnly = HERE,
) -> int:
    """Notify a person of answers, once for each conversation.

    An answer is a message of type x.done, x.failed or x.request.timed_out in the conversation of
    an x.request. The notice comes through notify-send where that is installed, or else with the
    terminal's bell on stderr. BUS_NOTIFY_BACKEND chooses: desktop, bell, or stderr (no bell).
    The bus records which answers were notified, so several watchers notify once.
    """
    from ...subscribers.overview.trace import Notices
    from ..running.notifications import notifier_of

    every_s = arguments.seconds(every, "--every")
    if not every_s:
        raise InvalidInput("--every must be more than 0")
    tell = notifier_of(place.output, os.environ)
    place.output.show_logs()
    with place.open() as bus:
        notices = Notices(bus)
        while True:
            try:
                for answer in notices.news(first_since_ms=since_time(since, bus.now_ms())):
                    tell(answer)
            except BusBusy as error:
                if once:
                    raise
                place.output.note(f"warning: {error}; looking again")
            if once:
                return 0
            time.sleep(every_s)


def _or_stdin(content: MessageContent) -> str | None:
    """Return the body, from stdin when none is given and stdin is a pipe or a file."""
    is_given = (content.body, content.data, content.file) != (None, None, None)
    if is_given or sys.stdin is None:
        return content.body
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return None
    wait_for_input()
    return STDIN


def _print_ids(output: Output, sent: Request, type: str) -> None:
    ids = {"message_id": sent.id, "conversation": sent.conversation, "type": type}
    if output.is_json:
        output.json_note({"event": "published", **ids})
    else:
        output.note(" ".join(["published", *(f"{name}={value}" for name, value in ids.items())]))


def _print_payload(output: Output, reply: Message) -> None:
    """Print the payload of an answer: text as it is, anything else as JSON."""
    if reply.payload_error is not None:
        raise AckbusError(
            f"the payload of message {reply.seq} can't be had: {reply.payload_error};"
            f" see 'bus show {reply.seq}'"
        )
    if isinstance(reply.payload, str):
        output.body(reply.payload)
    elif reply.has_payload:
        output.json_line(orjson.dumps(reply.payload))


def _record(answer: Answer) -> dict[str, object]:
    record: dict[str, object] = {"state": answer.state, "conversation": answer.conversation}
    reply = answer.reply
    if reply is None:
        return record
    record |= {"message_id": reply.id, "type": reply.type}
    if reply.payload_error is not None:
        record["payload_error"] = reply.payload_error
    elif reply.has_payload:
        record["payload"] = reply.payload
    return record


def _short(answer: Answer) -> dict[str, object]:
    """Return one of several answers, without its payload."""
    assert answer.reply is not None
    reply = answer.reply
    ids = {"seq": reply.seq, "message_id": reply.id, "type": reply.type, "from": reply.from_agent}
    return {"state": answer.state} | ids


def _answer_line(short: dict[str, object]) -> str:
    return f"answer [{short['seq']}] {short['state']} type={short['type']} from={short['from']}"


def _state_line(answer: Answer, now_ms: int) -> str:
    reply = answer.reply
    at_ms = now_ms if reply is None else reply.ts_ms
    line = f"[{format_ts(at_ms)}] {answer.state} conversation={answer.conversation}"
    return line if reply is None else f"{line} message_id={reply.id} type={reply.type}"
