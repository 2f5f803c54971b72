"""Answers: the messages that tell the senders of requests how their jobs ended.

A worker answers by what came of the work (`answer_to`). For a job that ends without one, because
its worker is lost, a person gave it up, or it is a duplicate, these are its last words.
"""

from __future__ import annotations

import logging

import orjson

from ...bus import tracing
from ...schema.errors import InvalidInput, LimitReached
from ...schema.message.draft import TRACE_STATE, Draft
from ...schema.message.limits import MAX_AGENT_CHARS, MAX_HEADERS_BYTES
from ...schema.message.names import check_agent, check_id, check_type
from ...schema.message.patterns import TypePattern
from ...schema.message.reply_types import ReplyTypes
from ...schema.queries import engine_of
from ..conversations.answers import answered
from .hops import MAX_HOPS, one_hop_on, refusal
from .jobs import CANCELLED
from .output_limits import kept_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..queues.queues import QueueInfo

    #: Makes the messages that tell of a job which ends without a worker, from the message, the
    #: job's state and the reason.
    LastWords = Callable[[Message, str, str], Iterable[Draft]]

#: Other headers that a conversation carries on: what its members agreed to share.
CONTEXT = "context"

#: Headers that a reply drops, in this order, when they are too long: stderr is on the claim anyway.
_DISPENSABLE = ("stderr", TRACE_STATE, CONTEXT)
#: The room that is left in the headers for what is added later, in bytes: the hops.
_LEFT_BYTES = 32

_log = logging.getLogger("ackbus.queue")


def answer_to(
    message: Message, type: str, payload: object, *, sender: str, headers: dict[str, object]
) -> Draft | None:
    """Return the answer to a message: to who sent it, in its conversation, as urgent as it was.

    Args:
        message: what is answered.
        type, payload: of the answer.
        sender: who answers.
        headers: how it came about; trace context and `context` are carried on beside them.

    Returns:
        The answer; None, and a warning, when it could not name the message or its sender: a
        program with its own SQL may have stored any text.
    """
    try:
        check_type(type)
        check_agent(message.from_agent, "sender")
        check_id(message.id)
        check_id(message.conversation, "conversation")
    except InvalidInput as error:
        _log.warning("message %s can't be answered: %s", message.seq, error)
        return None
    return Draft(
        type,
        payload,
        from_agent=sender,
        to_agent=message.from_agent,
        in_reply_to=message.id,
        correlation_id=message.conversation,
        priority=message.priority,
        headers=_fitting(carried_on(message) | headers),
    )


def last_words(sender: str, failure_type: str | None = None) -> LastWords:
    """Return what makes the answers to requests whose jobs end without a worker.

    Args:
        sender: who answers.
        failure_type: their type; None follows the convention of `ReplyTypes`, by which messages
            that are no requests have no answer.
    """

    def make(message: Message, state: str, why: str) -> list[Draft]:
        type = ReplyTypes.of(message.type, failure=failure_type).failure
        if type is None or refusal(message, MAX_HOPS):
            return []
        text = f"no worker finished this: {kept_error(why)}"
        answer = answer_to(message, type, text, sender=sender, headers={"status": state})
        return [] if answer is None else one_hop_on(message, [answer])

    return make


def tell_cancelled(
    bus: Bus, info: QueueInfo, cancelled: Iterable[tuple[Message, str]], sender: str | None = None
) -> None:
    """Answer the requests among messages whose jobs were cancelled, in the caller's transaction.

    Those that have an answer get no second one. An answer that has no room, or can't be, is left
    out with a warning: what can't be told must not keep a queue from being filled or emptied.

    Args:
        bus: the bus.
        info: the queue that the jobs are in.
        cancelled: each message, and why.
        sender: who answers. None is the queue itself, under its name: it speaks only if it is
            there for requests of this one type, since whoever looks at more does no such work.
    """
    own_type = TypePattern(info.pattern).exact
    asked = [
        (message, why)
        for message, why in cancelled
        if ReplyTypes.of(message.type).failure and (sender or message.type == own_type)
    ]
    told = answered(bus, [message for message, _ in asked])
    make = last_words(sender or info.name[:MAX_AGENT_CHARS].rstrip())
    refused: list[tuple[int, Exception]] = []
    for message, why in asked:
        if message.seq not in told:
            try:
                bus.log.append(make(message, CANCELLED, why))
            except (InvalidInput, LimitReached) as error:
                refused.append((message.seq, error))
    if refused:  # told when it is certain
        engine_of(bus).after_commit(lambda: _warn_of(info, refused))


def _warn_of(info: QueueInfo, refused: list[tuple[int, Exception]]) -> None:
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    seq, error = refused[0]
    _log.warning(
        "job %s%s of queue %s was cancelled without an answer: %s", seq, more, info.name, error
    )


def _fitting(headers: dict[str, object]) -> dict[str, object]:
    """Return headers without what makes them too long to be stored."""
    for name in _DISPENSABLE:
        if len(orjson.dumps(headers)) <= MAX_HEADERS_BYTES - _LEFT_BYTES:
            break
        headers.pop(name, None)
    return headers


def carried_on(message: Message) -> dict[str, object]:
    """Return the headers that what follows from a message has too."""
    headers = message.headers
    kept = {name: headers[name] for name in (TRACE_STATE, CONTEXT) if name in headers}
    return tracing.child_trace(headers) | kept
