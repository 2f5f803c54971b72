"""Requests: publish one, and wait for the first message that answers it."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

from ..schema.errors import TimedOut
from ..schema.message.draft import ABSENT
from .conversations.answers import PENDING, RECEIVE_WITHIN_S, Answer, answers_to, receive
from .conversations.reply_types import ReplyTypes
from .jobs.errors import UnservedRequestWarning
from .queues.worker_groups import QueueWorkers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from ..bus.bus import Bus
    from ..schema.message.fields import MessageFields

#: How long a waiter trusts the doorbell before it looks for itself, in seconds.
WAIT_RECHECK_S = 0.25


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has been published. Make one with `Request.send`.

    Attributes:
        bus: where.
        seq, id: the message.
        conversation: the conversation that it belongs to.
        reply_types: the types of the messages that answer it.
        asker: the agent that asked, if that is who waits for the answer: then the answer leaves
            its inbox. None: somebody else looks on.
        unserved: a warning, for people, if it was published just now, names no recipient, and no
            live worker serves its type; else None.
    """

    bus: Bus
    seq: int
    id: str
    conversation: str
    reply_types: ReplyTypes
    asker: str | None = None
    unserved: str | None = None

    @classmethod
    def send(
        cls,
        bus: Bus,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Unpack[MessageFields],
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
        sent = cls.published(bus, receipt.seq, reply_types, is_new=not receipt.duplicate)
        if sent.unserved is not None:
            warnings.warn(UnservedRequestWarning(sent.unserved), stacklevel=2)
        return sent

    @classmethod
    def published(cls, bus: Bus, seq: int, reply_types: ReplyTypes, *, is_new: bool) -> Request:
        """Return the request that its asker has published, without a warning.

        Args:
            bus: an open bus.
            seq: of the message.
            reply_types: the types of the messages that answer it.
            is_new: whether it was published just now, and not earlier: then `unserved` is found.
        """
        message = bus.get(seq)
        assert message is not None
        is_for_anybody = is_new and message.to_agent is None
        return cls(
            bus,
            message.seq,
            message.id,
            message.conversation,
            reply_types,
            asker=message.from_agent,
            unserved=QueueWorkers(bus).unserved(message.type) if is_for_anybody else None,
        )

    def check(self) -> Answer:
        """Return the first answer that there is now, or that it is pending. Doesn't wait.

        It only looks: the answer stays in the inbox of the agent that asked.
        """
        found = answers_to(self.bus, self.conversation, self.seq, self.reply_types)
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
        begin = time.monotonic()
        answer = self.until_answered(timeout_s)
        left = math.inf if timeout_s is None else begin + timeout_s - time.monotonic()
        receive(self.bus, answer, self.asker, timeout_s=max(0.0, min(left, RECEIVE_WITHIN_S)))
        return answer

    def until_answered(self, timeout_s: float | None = None) -> Answer:
        """Do as `wait` does, but leave the answer in the inbox of the agent that asked.

        For a caller that passes the answer on, and calls `receive` when the agent has it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self.bus.listen() as listener:  # before the look: what comes after it is heard
            while (answer := self.check()).state == PENDING:
                left = WAIT_RECHECK_S if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(
                        f"no answer to {self.id} within {timeout_s:g} s; it may still come:"
                        f" see 'bus check {self.conversation}'"
                    )
                listener.wait(min(left, WAIT_RECHECK_S))
        return answer


def request(
    bus: Bus,
    type: str,
    payload: object = ABSENT,
    *,
    from_agent: str,
    timeout_s: float | None = None,
    success_type: str | None = None,
    failure_type: str | None = None,
    **fields: Unpack[MessageFields],
) -> Answer:
    """Publish a request, wait for the first message that answers it, and return that.

    Args:
        bus: an open bus.
        type, payload, from_agent: as for `Bus.publish`.
        timeout_s: how long to wait, in seconds; None waits for ever.
        success_type, failure_type, fields: as for `Request.send`.

    Raises:
        TimedOut: no answer came in that time. The request stands, and may still be answered.
        As for `Request.send`.
    """
    sent = Request.send(
        bus,
        type,
        payload,
        from_agent=from_agent,
        success_type=success_type,
        failure_type=failure_type,
        **fields,
    )
    return sent.wait(timeout_s)
