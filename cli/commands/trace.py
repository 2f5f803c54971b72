"""Traces: the chain of a message, and every attempt at its jobs."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from ...schema.errors import InvalidInput, NotFound
from ...subscribers.jobs.json_records import claim_record, job_record
from ..definition import Commands, optional_word
from ..options.common import HERE, OfConversation, Place, conversation_named
from ..show import output
from ..show.message import print_in_full
from ..show.queues import act_line
from ..show.trace import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message
    from ...subscribers.overview.trace import Trace, Work

commands = Commands()

#: Fields that the line of a claim leaves out: those of its job's line, and those that may be long.
_NOT_IN_LINE = ("queue", "seq", "stderr", "result", "logs")


@commands.command("trace", example="bus trace review.request:17")
def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The seq or id of a message, a conversation, claim:TOKEN, or QUEUE:SEQ for a job.",
        ),
    ],
    place: Place = HERE,
) -> int:
    """Print all that led to a message or came of it, as a tree.

    These are the messages that it answers, up to the first, all messages of their conversations,
    the jobs of each message in the queues, and every attempt at them. --json prints one object.
    """
    from ...subscribers.overview.trace import Trace

    with place.open() as bus:
        found = Trace.of(bus, key)
        now_ms = bus.now_ms()
        if output.is_json():
            output.json_line(_trace_record(found, now_ms))
        else:
            for branch in branches(found, bus.blobs, now_ms):
                output.branch(*branch)
    return 0


@commands.command("inspect", example="bus inspect 17")
def inspect(
    key: Annotated[str | None, optional_word("ID|SEQ", "The id or the seq of a message.")] = None,
    conversation: OfConversation = None,
    place: Place = HERE,
) -> int:
    """Print a message with its jobs and claims in every queue.

    The state of a claim is terminal, live_active, or expired_active: its lease has run out, and
    no worker has noticed it yet. With --conversation it prints the messages of that, without
    arguments the whole log, both without claims.
    """
    from ...bus.log.finding import find_message
    from ...subscribers.overview.trace import WorkHistory

    if key is not None and conversation is not None:
        raise InvalidInput("give ID or --conversation, not both")
    with place.open() as bus:
        if key is None:
            named = conversation and conversation_named(bus, conversation)
            count = output.messages(bus.read(conversation=named), bus.blobs)
            return 0 if count else output.NOTHING
        message = find_message(bus, key)
        if message is None:
            raise NotFound(f"no message {key!a} in the log; see 'bus read'")
        work = WorkHistory(bus).of(message.seq)
        now_ms = bus.now_ms()
        if output.is_json():
            output.json_line(_message_record(message, work, now_ms))
        else:
            print_in_full(message, bus)
            _print_work(work, now_ms)
    return 0


def _print_work(work: list[Work], now_ms: int) -> None:
    if work:
        output.line("")
    for each in work:
        output.line(_line(job_record(each.job), ()))
        for claim in each.claims:
            output.line(f"  {_line(claim_record(claim, now_ms), _NOT_IN_LINE)}")
        for act in each.acts:
            output.line(f"  {act_line(act)}")


def _line(record: dict[str, object], left_out: tuple[str, ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in record.items() if name not in left_out)


def _trace_record(found: Trace, now_ms: int) -> dict[str, object]:
    messages = [
        {"depth": step.depth} | _message_record(step.message, step.work, now_ms)
        for step in found.steps
    ]
    return {"seq": found.seq, "conversations": found.conversations, "messages": messages}


def _message_record(message: Message, work: list[Work], now_ms: int) -> dict[str, object]:
    """Return a message as it is in bus.jsonl, large payloads by name, with its jobs."""
    record: dict[str, object] = orjson.loads(message.to_line())
    jobs = [
        job_record(each.job)
        | {"claims": [claim_record(claim, now_ms) for claim in each.claims]}
        | {"acts": [act.record() for act in each.acts]}
        for each in work
    ]
    return record | {"jobs": jobs}
