"""Requests: publish a request, and wait for the first message that answers it."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from functools import partial

from ..bus.doorbell import StopEvent, listen
from ..bus.in_thread import in_thread
from ..schema.arguments import checked, with_checked_arguments
from ..schema.errors import InvalidInput, TimedOut
from ..schema.message.draft import ABSENT
from ..schema.message.reply_types import ReplyTypes
from .answers import PENDING, RECEIVE_WITHIN_S, Answer, answers_to, receive
from .jobs.errors import UnservedRequestWarning
from .queues.queue_set import QueueWorkers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterable, Iterator
    from typing import Unpack

    from ..bus.local_bus import LocalBus
    from ..schema.message.fields import MessageFields

#: How long a waiter trusts the doorbell before it looks for itself, in seconds.
WAIT_RECHECK_S = 0.25


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class Request:
    """A request that has been published. Make one with `Request.send`.

    Attributes:
        bus: the bus that it is published in.
        seq, id: of its message.
        conversation: the conversation that it belongs to.
        reply_types: the types of the messages that answer it.
        asker: the agent that asked, if it waits for the answer itself: then the answer leaves its
            inbox. None: somebody else looks on.
        unserved: a warning, for people, if it was published just now, names no recipient, and no
            live worker serves its type; else None.
    """

    bus: LocalBus
    seq: int
    id: str
    conversation: str
    reply_types: ReplyTypes
    asker: str | None = None
    unserved: str | None = None

    @classmethod
    def send(
        cls,
        bus: LocalBus,
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
            warnings.warn(UnservedRequestWarning(sent.unserved), stacklevel=3)
        return sent

    @classmethod
    async def send_async(
        cls,
        bus: LocalBus,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Unpack[MessageFields],
    ) -> Request:
        """Publish a request as `send` does; a cancelled call may have published it."""
        types = {"success_type": success_type, "failure_type": failure_type}
        send = partial(cls.send, bus, type, payload, from_agent=from_agent, **types, **fields)
        return await in_thread(send)

    @classmethod
    def published(
        cls, bus: LocalBus, seq: int, reply_types: ReplyTypes, *, is_new: bool
    ) -> Request:
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
        """Return the first answer, or an `Answer` that is pending. Doesn't wait.

        Nothing is changed: the answer stays in the inbox of the agent that asked.
        """
        answers = answers_to(self.bus, self.conversation, self.seq, self.reply_types)
        return next(answers, Answer(PENDING, self.conversation))

    def wait(self, timeout_s: float | None = None) -> Answer:
        """Block until there is an answer, and return it: success, failure or timed out.

        The answer leaves the inbox of the agent that asked, without an acknowledgement. If the
        bus can't be written at that moment, the answer is returned all the same, and stays unread.

        Args:
            timeout_s: how long to wait, in seconds; None waits for ever.

        Raises:
            TimedOut: no answer came in that time. The request stands, and may still be answered.
        """
        begin = time.monotonic()
        answer = self.until_answered(timeout_s)
        left_s = math.inf if timeout_s is None else begin + timeout_s - time.monotonic()
        receive(self.bus, answer, self.asker, timeout_s=max(0.0, min(left_s, RECEIVE_WITHIN_S)))
        return answer

    async def wait_async(self, timeout_s: float | None = None) -> Answer:
        """Wait as `wait` does; the event loop goes on, and a cancelled call ends its thread."""
        ((_, answer),) = [pair async for pair in as_completed_async([self], timeout_s)]
        return answer

    def until_answered(self, timeout_s: float | None = None) -> Answer:
        """Do as `wait` does, but leave the answer in the inbox of the agent that asked.

        For a caller that passes the answer on, and calls `receive` when the agent has it.
        """
        ((_, answer),) = _Waiting([self], timeout_s).answers()
        return answer


@checked
def wait_all(requests: Iterable[Request], timeout_s: float | None = None) -> list[Answer]:
    """Block until every request has an answer, and return the answers in order.

    Args:
        requests: of one bus.
        timeout_s: how long to wait for all of them, in seconds; None waits for ever.

    Raises:
        InvalidInput: the requests are of several buses.
        TimedOut: some requests have no answer in that time; answers that came are received, as by
            `wait`.
    """
    in_order = list(requests)
    answers = {id(request): answer for request, answer in as_completed(in_order, timeout_s)}
    return [answers[id(request)] for request in in_order]


@checked
async def wait_all_async(
    requests: Iterable[Request], timeout_s: float | None = None
) -> list[Answer]:
    """Wait for the answers to requests, as `wait_all` does, without blocking the loop."""
    in_order = list(requests)
    completed = as_completed_async(in_order, timeout_s)
    answers = {id(request): answer async for request, answer in completed}
    return [answers[id(request)] for request in in_order]


@checked
def as_completed(
    requests: Iterable[Request], timeout_s: float | None = None
) -> Iterator[tuple[Request, Answer]]:
    """Yield each request with its answer, as soon as the answer is there; blocks in between.

    Args and errors as for `wait_all`. Each answer leaves the inbox of the agent that asked.
    """
    for request, answer in _Waiting(requests, timeout_s).answers():
        receive(request.bus, answer, request.asker)
        yield request, answer


@checked
async def as_completed_async(
    requests: Iterable[Request], timeout_s: float | None = None
) -> AsyncIterator[tuple[Request, Answer]]:
    """Yield each request with its answer as `as_completed` does, without blocking the loop."""
    waiting = _Waiting(requests, timeout_s)
    answers = waiting.answers()
    try:
        while pair := await in_thread(lambda: next(answers, None), stop=waiting.stop):
            request, answer = pair
            await in_thread(partial(receive, request.bus, answer, request.asker))
            yield request, answer
    finally:
        answers.close()


class _Waiting:
    """A wait for the answers to several requests of a bus."""

    def __init__(self, requests: Iterable[Request], timeout_s: float | None) -> None:
        self._left = list(requests)
        self._timeout_s = timeout_s
        self._stop = StopEvent()
        if len({id(request.bus) for request in self._left}) > 1:
            raise InvalidInput(
                "the requests are of several buses; wait for the requests of each bus separately"
            )

    def stop(self) -> None:
        """End the wait, from any thread: no further answer comes."""
        self._stop.set()

    def answers(self) -> Generator[tuple[Request, Answer], None, None]:
        """Yield each request with its answer, which stays in the inbox of the agent that asked."""
        if not self._left:
            return
        deadline = math.inf if self._timeout_s is None else time.monotonic() + self._timeout_s
        with listen(self._left[0].bus, self._stop) as listener:
            while self._left and not self._stop.is_set:
                pairs = listener.wait_for(
                    self._answered,
                    timeout_s=deadline - time.monotonic(),
                    recheck_s=WAIT_RECHECK_S,
                )
                if not pairs and not self._stop.is_set:
                    raise self._late()
                for request, answer in pairs:
                    self._left.remove(request)
                    yield request, answer

    def _answered(self) -> list[tuple[Request, Answer]]:
        answers = [(request, request.check()) for request in self._left]
        return [(request, answer) for request, answer in answers if answer.state != PENDING]

    def _late(self) -> TimedOut:
        first = self._left[0]
        which = first.id if len(self._left) == 1 else f"{len(self._left)} requests"
        return TimedOut(
            f"no answer to {which} within {self._timeout_s:g} s; it may still come:"
            f" see 'bus check {first.conversation}'"
        )
