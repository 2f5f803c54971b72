"""An inbox: one agent's view of the log, and the loop that delivers from it."""

from __future__ import annotations

import warnings

from ...bus.doorbell import Pace, wait_for
from ...schema.arguments import with_checked_arguments
from ...schema.errors import AckbusError, AckPastEnd, InvalidInput, SecondLoopWarning
from ...schema.message.draft import Draft
from ...schema.message.names import check_agent
from ...schema.message.patterns import TypePattern
from ..starts import BEGINNING, seq_before
from .delivery import DeliveryRun
from .failed_deliveries import Cursors, Deliveries, Parked
from .mail import NO_LIMIT, POLL_LIMIT, InboxView, MailReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from ...bus.local_bus import LocalBus
    from ...schema.callbacks import FailureLog
    from ...schema.message.message import Message, Receipt
    from ..options import Start

#: How many deliveries of a message may fail before it is parked.
MAX_DELIVERIES = 5

#: How long a message that failed waits before it is delivered again for the first time, in seconds:
#: short, because what is behind it waits too.
RETRY_PAUSE_S = 0.1


@with_checked_arguments
class Inbox:
    """The inbox of one agent: messages to it, and broadcasts, after its cursor.

    Delivery is at least once: unacknowledged messages are redelivered, in order. Run only one
    delivery loop of an agent's inbox at a time.

    Args:
        bus: an open bus.
        agent: whose inbox; it needs no registration, and sees all history until it acknowledges.
        own_broadcasts: whether the agent's own broadcasts come back to it.
        with_work: whether what queues hide comes too; looking then reads all since the cursor.
        max_deliveries: how many deliveries of a message may fail before it is parked.
        retry_pause_s: how long a message that failed waits before it is delivered again, in
            seconds; each further failure doubles it, up to a minute.
        recheck_s: how long a loop waits, in seconds, before it looks without a ring of the
            doorbell, for programs that never ring it; None: 0.2 s, then longer, up to 2 s.
    """

    def __init__(
        self,
        bus: LocalBus,
        agent: str,
        *,
        own_broadcasts: bool = False,
        with_work: bool = False,
        max_deliveries: int = MAX_DELIVERIES,
        retry_pause_s: float = RETRY_PAUSE_S,
        recheck_s: float | None = None,
    ) -> None:
        check_agent(agent)
        if max_deliveries < 1 or retry_pause_s <= 0:
            raise InvalidInput("max_deliveries must be at least 1, and retry_pause_s above 0")
        if recheck_s is not None and recheck_s <= 0:
            raise InvalidInput(f"recheck_s must be above 0, not {recheck_s:g}")
        self.bus = bus
        self.agent = agent
        self.has_cursor = False
        self.max_deliveries = max_deliveries
        self.retry_pause_s = retry_pause_s
        self._pace = Pace() if recheck_s is None else Pace(recheck_s, recheck_s)
        self._cursors = Cursors.of(bus)
        self._deliveries = Deliveries.of(bus)
        self._mail = MailReader(
            bus,
            agent,
            self._cursors,
            self._deliveries,
            own_broadcasts=own_broadcasts,
            with_work=with_work,
        )
        self._shows_more = own_broadcasts or with_work
        self._loops: set[DeliveryRun] = set()
        self._failures: FailureLog | None = None  # few inboxes meet any
        self._is_stopped = False

    @property
    def position(self) -> int:
        """The cursor: the last seq that the agent acknowledged, 0 before the first."""
        return self._cursors.position(self.agent)

    def join(self, *, start: Start = BEGINNING) -> None:
        """Become a reader, as acknowledging does: what comes waits until it is acknowledged.

        An agent that only polls leaves no trace, and broadcasts that it has not read may be
        archived. The loops, `Session`, and the tools and hooks of coding agents join by themselves.
        Safe to repeat; the cursor stays where it is.

        Args:
            start: where a new reader begins: `beginning` (all that the log holds), `now`, or a
                seq. Earlier mail is passed over, addressed mail too.

        Raises:
            InvalidInput: `start` is none of these, or lies beyond the next message.
        """
        self._cursors.join(self.agent, after_seq=seq_before(self.bus, start))

    def poll(
        self, limit: int = POLL_LIMIT, *, type: str | None = None, wait_s: float = 0.0
    ) -> list[Message]:
        """Return up to `limit` messages that wait, in order of seq. Changes nothing.

        Requeued messages come too, each at its own place in the order.

        Args:
            limit: how many at most, at least 1.
            type: only messages that fit this type pattern. An acknowledgement covers what the
                pattern hid as well: poll by type to look, not to work.
            wait_s: how long to block until there is a message, in seconds; 0 doesn't block.

        Raises:
            InvalidInput: an argument breaks a rule.
            MailArchived: messages that wait were archived, since the agent had not been seen for
                long.
        """
        if limit < 1:
            raise InvalidInput(f"limit must be at least 1, not {limit}")
        pattern = None if type is None else TypePattern(type)
        view = self._mail.look(limit, pattern)
        self.has_cursor = view.cursor > 0
        if view.messages or wait_s <= 0:
            return view.messages
        return wait_for(
            self.bus,
            lambda: self._mail.look(limit, pattern).messages,
            timeout_s=wait_s,
            recheck_s=Pace().next,
        )

    def _look(self, limit: int = POLL_LIMIT, pattern: TypePattern | None = None) -> InboxView:
        """Return the messages that `poll` returns, and the state of the inbox."""
        return self._mail.look(limit, pattern)

    def poll_after(self, after_seq: int, limit: int = POLL_LIMIT) -> list[Message]:
        """Return up to `limit` messages that wait after a seq, without requeued messages."""
        return self._mail.after(after_seq, limit)

    @property
    def wants(self) -> list[str] | None:
        """The types of the broadcasts that the agent wants, as patterns; None for all."""
        return self._cursors.wants(self.agent)

    def want(self, *patterns: str) -> None:
        """Choose which broadcasts wait here, by patterns of types; with no pattern, all.

        Messages that are addressed to the agent wait anyway. The choice is kept with the cursor,
        and holds for messages that wait already. An acknowledgement passes broadcasts that are not
        wanted.

        Raises:
            InvalidInput: a pattern is not valid, or has a word between a `*` and a last `>`.
        """
        self._cursors.set_wants(self.agent, patterns or None)

    def receive(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Take a message that was waited for out of the inbox; the cursor stays.

        Args:
            message: the message.
            timeout_s: how long to wait for other writers, in seconds; None: as the bus does.

        Raises:
            BusBusy: other writers kept the bus for longer.
        """
        if message.to_agent in (None, self.agent):
            self._cursors.receive(self.agent, message.seq, timeout_s)

    def unread(self, limit: int = 1000) -> int:
        """Return how many messages wait, counted up to `limit`."""
        if self._shows_more:
            return len(self.poll(limit))
        return self._cursors.count_unread(self.agent, limit)

    def ack(self, message: Message | int) -> int:
        """Acknowledge a message and all before it; safe to repeat.

        A requeued message is acknowledged by itself.

        Args:
            message: the message, or its seq.

        Returns:
            Where the cursor is now; it never moves back.

        Raises:
            AckPastEnd: the seq is above the newest message, or below 1.
        """
        seq = message if isinstance(message, int) else message.seq
        position = self._cursors.acknowledge(self.agent, seq)
        if position is not None:
            return position
        with self.bus.transaction():
            newest = self.bus.log.newest_seq()
            if not 1 <= seq <= newest:
                extent = f"the log holds 1 to {newest}" if newest else "the log is empty"
                raise AckPastEnd(f"can't acknowledge {seq}: {extent}; see 'bus poll'")
            self._deliveries.acknowledge(self.agent, seq)
            return self._cursors.advance(self.agent, seq)

    def complete(self, message: Message, *replies: Draft) -> list[Receipt] | None:
        """Acknowledge a message and publish the replies to it, in a single transaction, once.

        All before it is acknowledged too, as by `ack`: complete messages in order. However often
        the message is delivered, the replies are published one time.

        Returns:
            The receipts of the replies, or None when the agent had completed the message before.

        Raises:
            InvalidInput: the message is for another agent.
            AckbusError: as for `Bus.publish`; then nothing is acknowledged either.
        """
        self._refuse_what_is_for_others(message)
        with self.bus.transaction():
            first = self._deliveries.finish(self.agent, message.id)
            receipts = self.bus.publish_many(replies) if first else None
            self.ack(message)
        return receipts

    def is_completed(self, message: Message) -> bool:
        """Whether the agent has completed a message: a handler asks before it acts elsewhere."""
        return self._deliveries.is_finished(self.agent, message.id)

    def fail(self, message: Message, error: str) -> bool:
        """Record a failed delivery (nack); after `max_deliveries` failures the message is parked.

        A failure after the acknowledgement does not count. A message is parked only when no message
        waits before it, since the cursor can't pass one and not the other: where several fail out
        of order, it returns False until the messages before are acknowledged.

        Returns:
            Whether it is parked now, and the cursor past it.

        Raises:
            InvalidInput: the message is for another agent.
        """
        self._refuse_what_is_for_others(message)
        return self._count(message, error, self.max_deliveries)

    def _count(self, message: Message, error: str, max_failures: int) -> bool:
        with self.bus.transaction():
            if self._is_acknowledged(message):
                return False
            attempts = self._deliveries.count_failure(self.agent, message.seq, error)
            if attempts < max_failures or self._waits_before(message):
                return False
            self._deliveries.park(self.agent, message.seq)
            self._cursors.advance(self.agent, message.seq)
        return True

    def park(self, message: Message, why: str) -> int:
        """Put a message aside that its agent does not handle; all before it is acknowledged.

        People see it (`parked`), and requeue or drop it, like a message that failed too often.

        Args:
            message: the message.
            why: the reason, for people.

        Returns:
            Where the cursor is now.

        Raises:
            InvalidInput: the message is for another agent.
        """
        self._refuse_what_is_for_others(message)
        with self.bus.transaction():
            self._put_aside(message, why)
            return self.ack(message)

    def _put_aside(self, message: Message, why: str) -> None:
        self._deliveries.count_failure(self.agent, message.seq, why)
        self._deliveries.park(self.agent, message.seq)

    def _waits_before(self, message: Message) -> bool:
        return any(first.seq < message.seq for first in self.poll(limit=1))

    def _refuse_what_is_for_others(self, message: Message) -> None:
        if message.to_agent not in (None, self.agent):
            raise InvalidInput(
                f"message {message.seq} is for {message.to_agent!a}, not for {self.agent!a}"
            )

    def parked(self) -> list[Parked]:
        """Return the agent's parked messages, in order."""
        return self._deliveries.parked(self.agent)

    def requeue(self, seq: int) -> None:
        """Deliver a parked message again. Raises `NotFound` when it is not parked."""
        self._deliveries.requeue(self.agent, seq)

    def drop(self, seq: int) -> None:
        """Drop a parked message. Raises `NotFound` when it is not parked."""
        self._deliveries.drop(self.agent, seq)

    def run(
        self,
        handler: Callable[[Message], None],
        *,
        drain: bool = False,
    ) -> None:
        """Handle each message, and acknowledge it when `handler` returns; blocks between them.

        When the handler raises an `Exception`, the message comes again after a pause, and later
        messages wait, until it succeeds or is parked. The logger `ackbus.inbox` reports it.

        Args:
            handler: a plain function; is given each message. What it returns is ignored, unless it
                is still to be run (a coroutine, a generator): then the delivery has failed.
            drain: return when nothing is left, instead of waiting for more.

        Raises:
            InvalidInput: the handler is a coroutine function or a generator function; nothing was
                delivered.
        """
        from .delivery import run

        run(self._new_delivery(drain=drain), handler)

    async def run_async(
        self, handler: Callable[[Message], Awaitable[object]], *, drain: bool = False
    ) -> None:
        """Do as `run` does, for a coroutine function; the event loop never waits for the bus.

        Raises:
            InvalidInput: the handler is no coroutine function; nothing was delivered.
        """
        from .delivery import run_async

        await run_async(self._new_delivery(drain=drain), handler)

    def stop(self) -> None:
        """End the loops on this object after the current message, and later loops at once.

        Safe from any thread and from a signal handler; more than once does nothing.
        """
        self._is_stopped = True
        for delivery in tuple(self._loops):
            delivery.stop()

    def _new_delivery(self, *, drain: bool = False) -> DeliveryRun:
        """Return the run of a new loop, which `stop` ends."""
        return DeliveryRun(self, drain=drain)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages for ever; asking for the next message acknowledges the last.

        Leaving the loop, by `break` or by an error, leaves the message that was at hand
        unacknowledged: it comes again, and counts as a failed delivery. Acknowledge it before a
        `break` that follows the work.
        """
        from .delivery import iterate

        return iterate(self._new_delivery())

    def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages as the plain iterator does; the event loop never waits for the bus."""
        from .delivery import iterate_async

        return iterate_async(self._new_delivery())

    def _begin(self) -> None:
        """Begin to deliver; a message on which the last process died counts as a failure.

        Which message that was is not recorded, since this would cost a write for each message: it
        is the first that waits.
        """
        with self.bus.transaction():
            self.join()
            earlier = self._deliveries.begin_loop(self.agent)
        if earlier is None:
            return
        pid, still_runs = earlier
        if still_runs:
            text = f"process {pid} delivers to {self.agent} too: both get every message"
            warnings.warn(SecondLoopWarning(text), stacklevel=2)
            return
        for message in self.poll(limit=1):
            # It may have come after that process died: a single such count must not park it.
            self._count(message, "the process that handled it died", max(2, self.max_deliveries))

    def _leave(self, message: Message) -> None:
        """Count a delivery that was broken off, by an error or a `break`, as a failure.

        Without this a message over which the body of a `for` loop fails would come for ever.
        """
        try:
            self.fail(message, "the loop was left before it was acknowledged")
        except AckbusError:
            return  # the bus is closed: this loop is not ended in good order, which counts as well

    def _end(self) -> None:
        """End delivering, in good order."""
        try:
            self._deliveries.end_loop(self.agent)
        except AckbusError:
            return  # the next loop takes this loop for dead, and counts a failure too many

    def attempts(self, message: Message) -> int:
        """Return how many deliveries of a message have failed."""
        return self._deliveries.attempts(self.agent, message.seq)

    def _is_acknowledged(self, message: Message) -> bool:
        requeued = self._deliveries.requeued(self.agent, NO_LIMIT)
        return message.seq <= self.position and message.seq not in requeued
