"""The answers to requests: one message for each job that is over, in its conversation."""

from __future__ import annotations

import logging
import secrets

import orjson

from ..schema import MAX_HEADERS_BYTES, Draft, InvalidInput, check_agent, check_id, check_type
from ..subscribers import Outcome, ReplyTypes
from .work import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Message

#: The headers of W3C trace context, which every answer carries on.
TRACE_PARENT, TRACE_STATE = "traceparent", "tracestate"

#: Other headers that a conversation carries on: what its members agreed to share.
CONTEXT = "context"

#: What an answer goes without, in this order, when its headers are too long: stderr is on the
#: claim anyway.
_DISPENSABLE = ("stderr", TRACE_STATE, CONTEXT)

_log = logging.getLogger("ackbus.worker")


class Answers:
    """Makes the messages that tell how a job ended.

    Args:
        group: who answers.
        success, failure: the types of the answers; None follows the convention of `ReplyTypes`.

    Raises:
        InvalidInput: a type is none.
    """

    def __init__(self, group: str, success: str | None, failure: str | None) -> None:
        for type in (success, failure):
            if type is not None:
                check_type(type)
        self._group = group
        self._success, self._failure = success, failure

    def to(self, message: Message, result: Result) -> list[Draft]:
        """Return what is to be published if the job is over by this result."""
        assert result.outcome is not None
        types = ReplyTypes.of(message.type, self._success, self._failure)
        by_status = {"completed": types.success, "timed_out": types.timed_out}
        type = by_status.get(result.outcome.status, types.failure)
        if type is None or not _can_be_answered(message, type):
            return [*result.drafts]
        return [*result.drafts, self._answer(message, type, result)]

    def last_words(self, message: Message, state: str, why: str) -> list[Draft]:
        """Return the answer for a job that is over because its workers were lost."""
        outcome = Outcome(status="failed", error=why)
        headers: dict[str, object] = {"status": state}
        return self.to(
            message, Result(outcome, payload=f"no worker finished this: {why}", headers=headers)
        )

    def _answer(self, message: Message, type: str, result: Result) -> Draft:
        return Draft(
            type,
            result.payload,
            from_agent=self._group,
            to_agent=message.from_agent,
            in_reply_to=message.id,
            correlation_id=message.conversation,
            priority=message.priority,
            headers=_fitting(carried_on(message) | result.headers),
        )


def _can_be_answered(message: Message, type: str) -> bool:
    """Whether an answer can name its request: a program with its own SQL may store any text."""
    try:
        check_type(type)
        check_agent(message.from_agent, "sender")
        check_id(message.id)
        check_id(message.conversation, "conversation")
    except InvalidInput as error:
        _log.warning("message %s can't be answered: %s", message.seq, error)
        return False
    return True


def _fitting(headers: dict[str, object]) -> dict[str, object]:
    """Return headers without what makes them too long to be stored."""
    for name in _DISPENSABLE:
        if len(orjson.dumps(headers)) <= MAX_HEADERS_BYTES:
            break
        headers.pop(name, None)
    return headers


def carried_on(message: Message) -> dict[str, object]:
    """Return the headers that what follows from a message has too."""
    headers = message.headers
    kept = {name: headers[name] for name in (TRACE_STATE, CONTEXT) if name in headers}
    parent = child_trace(headers.get(TRACE_PARENT))
    return kept if parent is None else {TRACE_PARENT: parent, **kept}


def child_trace(parent: object) -> str | None:
    """Return the `traceparent` of a step within a trace: the same trace, a new span."""
    if not isinstance(parent, str):
        return None
    parts = parent.split("-")
    if len(parts) < 4 or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None  # no W3C trace context: to be dropped
    return f"{parts[0]}-{parts[1]}-{secrets.token_hex(8)}-{parts[3]}"
