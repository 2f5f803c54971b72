"""Conversations: a request, and the first message that answers it.

A request is an ordinary message, and so is its answer; nothing else is stored. Workers publish
an answer only when the work is over for good, so the first one that comes is the answer.
"""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass

from ..schema import ABSENT, BusBusy, BusUnusable, InvalidInput, TimedOut
from .errors import UnservedRequestWarning
from .inbox import Inbox
from .queue_workers import QueueWorkers
from .reply_types import REQUEST, ReplyTypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..bus import Bus
    from ..schema import Message

#: The states of a conversation.
PENDING, SUCCESS, FAILURE, TIMED_OUT = "pending", "success", "failure", "timed_out"

#: Which answer `check` takes where there are several.
FIRST, LAST = "first", "last"

#: How long a waiter trusts the doorbell before it looks for itself, in seconds.
WAIT_RECHECK_S = 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """How a conversation stands.

    Attributes:
        state: `pending`, `success`, `failure` or `timed_out`.
        conversation: its id.
        reply: the message that answers it; None while it is pending.
    """

    state: str
    conversation: str
    reply: Message | None = None

    @property
    def failed(self) -> bool:
        """Whether the work is over without success."""
        return self.state in (FAILURE, TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has been published. Make one with `Request.publish`.

    Attributes:
        bus: where.
        seq, id: the message.
        conversation: the conversation that it belongs to.
        reply_types: the types of the messages that answer it.
    """

    bus: Bus
    seq: int
    id: str
    conversation: str
    reply_types: ReplyTypes

    @classmethod
    def publish(
        cls,
        bus: Bus,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Any,
    ) -> Request:
        """Publish a request and return at once.

        Args:
            bus: an open bus.
            type, payload, from_agent: as for `Bus.publish`.
            success_type, failure_type: the types of the answers; those left out follow the
                convention (`ReplyTypes.of`).
            fields: more arguments of `Bus.publish`. Repeating the same `id` and content is safe
                and finds the answer to the first.

        Raises:
            InvalidInput: neither the convention nor the arguments say what would be an answer.
            As for `Bus.publish`.

        Warns:
            UnservedRequestWarning: it names no recipient, and no live worker serves its type.
        """
        reply_types = ReplyTypes.of(type, success_type, failure_type)
        reply_types.require(type)
        receipt = bus.publish(type, payload, from_agent=from_agent, **fields)
        message = bus.get(receipt.seq)
        assert message is not None
        if message.to_agent is None and not receipt.duplicate:
            unserved = QueueWorkers(bus).unserved(type)
            if unserved is not None:
                warnings.warn(UnservedRequestWarning(unserved), stacklevel=2)
        return cls(bus, message.seq, message.id, message.conversation, reply_types)

    def answer(self) -> Answer:
        """Return the first answer that there is now, or that it is pending."""
        found = _answers(self.bus, self.conversation, self.seq, self.reply_types)
        return next(found, Answer(PENDING, self.conversation))

    def wait(self, timeout_s: float | None = None) -> Answer:
        """Block until there is an answer, and return it: success, failure or timed out.

        The answer leaves the inbox of the agent that asked, without an acknowledgement. Where the
        bus can't be written at that moment, it is returned all the same, and stays unread.

        Args:
            timeout_s: how long to wait, in seconds; None waits for ever.

        Raises:
            TimedOut: none came in that time. The request stands, and may still be answered.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self.bus.listen() as listener:  # before the look: what comes after it is heard
            while (answer := self.answer()).state == PENDING:
                left = WAIT_RECHECK_S if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(
                        f"no answer to {self.id} within {timeout_s:g} s; it may still come:"
                        f" see 'bus check {self.conversation}'"
                    )
                listener.wait(min(left, WAIT_RECHECK_S))
        with suppress(BusBusy, BusUnusable):  # the answer counts, also where it stays unread
            self._receive(answer)
        return answer

    def _receive(self, answer: Answer) -> None:
        """Take the answer out of the inbox of the agent that asked."""
        asked = self.bus.get(self.seq)
        if asked is not None and answer.reply is not None:
            Inbox(self.bus, asked.from_agent).receive(answer.reply)


def request(
    bus: Bus,
    type: str,
    payload: object = ABSENT,
    *,
    from_agent: str,
    timeout_s: float | None = None,
    **options: Any,
) -> Answer:
    """Publish a request, wait for the first message that answers it, and return that.

    Args:
        bus: an open bus.
        type, payload, from_agent: as for `Bus.publish`.
        timeout_s: how long to wait, in seconds; None waits for ever.
        options: as for `Request.publish`.

    Raises:
        TimedOut: no answer came in that time. The request stands, and may still be answered.
        As for `Request.publish`.
    """
    sent = Request.publish(bus, type, payload, from_agent=from_agent, **options)
    return sent.wait(timeout_s)


def check(
    bus: Bus,
    conversation: str,
    *,
    success_type: str | None = None,
    failure_type: str | None = None,
    which: str = LAST,
) -> Answer:
    """Say how a conversation stands, without waiting. One that the log does not know is pending.

    Its request is its first message of a type that ends in `.request`, or else its first one;
    what stands before the request is no answer to it.

    Args:
        bus: an open bus.
        conversation: its id.
        success_type, failure_type: the types of the answers; those left out follow the
            convention by the request's type.
        which: which answer counts where there are several: the `last` or the `first`.

    Raises:
        InvalidInput: neither the convention nor the arguments say what would be an answer, or
            `which` is something else.
    """
    if which not in (FIRST, LAST):
        raise InvalidInput(f"which answer: {FIRST} or {LAST}, not {which!r}")
    asked = _request_of(bus, conversation)
    if asked is None:
        return Answer(PENDING, conversation)
    reply_types = ReplyTypes.of(asked.type, success_type, failure_type)
    reply_types.require(asked.type)
    answers = list(_answers(bus, conversation, asked.seq, reply_types))
    if not answers:
        return Answer(PENDING, conversation)
    return answers[0 if which == FIRST else -1]


def answered(bus: Bus, requests: Iterable[Message]) -> set[int]:
    """Return the seqs of those requests that have an answer by the convention.

    One walk for each conversation and type, over what came after the first of its requests.
    """
    alike: dict[tuple[str, str], list[int]] = {}
    for asked in requests:
        alike.setdefault((asked.conversation, asked.type), []).append(asked.seq)
    found: set[int] = set()
    for (conversation, type), seqs in alike.items():
        for _, reply in _replies(bus, conversation, min(seqs), ReplyTypes.of(type)):
            meant = _request_meant(bus, reply, type)
            found.update(seq for seq in seqs if seq < reply.seq and meant in (None, seq))
    return found


def _request_of(bus: Bus, conversation: str) -> Message | None:
    first: Message | None = None
    for message in bus.read(conversation=conversation):
        if message.type.endswith(REQUEST):
            return message
        first = first or message
    return first


def _answers(
    bus: Bus, conversation: str, request_seq: int, reply_types: ReplyTypes
) -> Iterator[Answer]:
    """Yield every answer in a conversation to a request. Reads no more than what came after it.

    An answer may come by way of other messages, but not to another request of the same type.
    """
    asked = bus.get(request_seq)
    assert asked is not None
    for state, reply in _replies(bus, conversation, request_seq, reply_types):
        if _request_meant(bus, reply, asked.type) in (None, request_seq):
            yield Answer(state, conversation, reply)


def _replies(
    bus: Bus, conversation: str, after_seq: int, reply_types: ReplyTypes
) -> Iterator[tuple[str, Message]]:
    """Yield the messages that may answer a request in a conversation, and what they tell."""
    for message in bus.read(conversation=conversation, from_seq=after_seq + 1):
        state = _state_by(message, reply_types)
        if state is not None:
            yield state, message


def _request_meant(bus: Bus, reply: Message, request_type: str) -> int | None:
    """Return the seq of the one request of a type that a message answers, if it names one.

    None: it is for every request of that type before it in its conversation.
    """
    parent = None if reply.in_reply_to is None else bus.get(reply.in_reply_to)
    return parent.seq if parent is not None and parent.type == request_type else None


def _state_by(message: Message, reply_types: ReplyTypes) -> str | None:
    """Return the state that a message brings its conversation into, or None.

    Success comes first, for those who give one type to both outcomes.
    """
    if message.type == reply_types.success:
        return SUCCESS
    if message.type == reply_types.failure:
        return FAILURE
    return TIMED_OUT if message.type == reply_types.timed_out else None
