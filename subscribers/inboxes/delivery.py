"""The delivery loop, written once for its four forms.

`DeliveryRun.steps` is a generator: it yields what the driver does next, and takes the outcome. It
reads and writes the bus between its yields, never across a yield; the drivers only call handlers
and wait.
"""

from __future__ import annotations

from ...bus import tracing
from ...bus.doorbell import StopEvent, listen
from ...schema.callbacks import call_plain, check_coroutine_function, check_plain, refuse_unrun
from ...schema.message.message import delivered
from ...schema.processes import leave_signals
from ...schema.queries import engine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
    from concurrent.futures import Executor

    from ...bus.doorbell import Listener
    from ...schema.message.message import Message
    from .inbox import Inbox
    from .mail import InboxView

# The pause before a message whose delivery failed is delivered again.

#: By how much each failure of a message lengthens the pause, and the longest pause, in seconds:
#: meanwhile the messages behind it wait.
RETRY_FACTOR, RETRY_MAX_S = 2.0, 60.0

#: Enough doublings from any sensible first pause to the longest pause: a message that is never
#: parked may fail more often than a float can be doubled.
_MAX_DOUBLINGS = 64


def retry_pause_s(first_s: float, failures: int) -> float:
    """Return the pause in seconds after a failure that follows this many failures."""
    return min(first_s * RETRY_FACTOR ** min(failures, _MAX_DOUBLINGS), RETRY_MAX_S)


class Handle:
    """The driver is to hand over this message, and to answer None, or the handler's error."""

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        self.message = message


class Wait:
    """The driver is to call `wait`, which blocks, and to answer None.

    Args:
        delivery: the run that waits; stopping it ends the wait.
        listener: ends the wait early.
        seconds: how long the wait is, unless it ends early.
        whole: whether messages that arrive don't end it early.

    Attributes:
        rung: whether a ring of the doorbell ended the wait.
    """

    __slots__ = ("_delivery", "_listener", "_seconds", "_whole", "rung")

    def __init__(
        self, delivery: DeliveryRun, listener: Listener, seconds: float, *, whole: bool = False
    ) -> None:
        self._delivery, self._listener = delivery, listener
        self._seconds, self._whole = seconds, whole
        self.rung = False

    def wait(self) -> None:
        """Block until there may be something to do, or the run was stopped."""
        if self._delivery.stopped:
            return
        if self._whole:
            self._listener.pause(self._seconds)
        else:
            self.rung = self._listener.wait(self._seconds)


class DeliveryRun:
    """A run of an inbox's delivery loop.

    Args:
        inbox: the inbox.
        drain: end when nothing is left.
    """

    def __init__(self, inbox: Inbox, *, drain: bool) -> None:
        self.inbox = inbox
        self._drain = drain
        self._stop = StopEvent()
        self._version: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether this loop, or its inbox, was stopped."""
        return self._stop.is_set or self.inbox._is_stopped

    def stop(self) -> None:
        """End the loop after the message that is at hand; safe from any thread and a signal."""
        self._stop.set()

    def steps(self) -> Generator[Handle | Wait, Exception | None, None]:
        """Yield what to do next; each answer says how it went.

        Listening begins before the first look, so that no message falls between look and wait.
        """
        inbox = self.inbox
        inbox._begin()
        with listen(inbox.bus, self._stop) as listener:
            inbox._loops.add(self)
            try:
                while not self.stopped:
                    look = inbox._look()
                    if look.messages:
                        inbox._pace.reset()
                        yield from self._deliver(look, listener)
                    elif self._drain:
                        return
                    else:
                        yield from self._await_commit(listener)
            finally:
                inbox._loops.discard(self)
                inbox._end()

    def _fail(self, message: Message, error: Exception) -> bool:
        """Count a failure, log it, and return whether the message is parked.

        The first failure of each kind is a warning with its traceback, and so is each parking.
        """
        import logging  # hardly ever needed

        from ...schema.callbacks import AlreadyReported, FailureLog, text_of

        inbox, text = self.inbox, text_of(error)
        is_parked = inbox.fail(message, text)
        if isinstance(error, AlreadyReported):
            return is_parked
        if inbox._failures is None:
            inbox._failures = FailureLog()
        consequence = (
            "parked" if is_parked else f"delivery {message.attempt} of {inbox.max_deliveries}"
        )
        inbox._failures.tell(
            logging.getLogger("ackbus.inbox"),
            f"message {message.seq} for {inbox.agent}: {text} ({consequence})",
            error,
            logging.WARNING if is_parked else logging.DEBUG,
        )
        return is_parked

    def _await_commit(self, listener: Listener) -> Generator[Wait, Exception | None, None]:
        """Wait for a ring of the doorbell, or a commit of a program that does not ring it.

        To look for a commit is cheaper than to look into the inbox, and idle inboxes are many.
        """
        while not self.stopped:
            wait = Wait(self, listener, self.inbox._pace.next())
            yield wait
            if wait.rung:
                return
            before, self._version = self._version, engine_of(self.inbox.bus).version()
            if self._version != before:  # or this is the first look
                return

    def _deliver(
        self, look: InboxView, listener: Listener
    ) -> Generator[Handle | Wait, Exception | None, None]:
        """Deliver in order; after a failure stop, since nothing may overtake what failed."""
        reached = look.has_failures
        for message in look.messages:
            if self.stopped:
                return
            # Requeued messages, and the first above the cursor, may have failed before; messages
            # after that were never reached.
            failures = self.inbox.attempts(message) if reached else 0
            reached = reached and message.seq <= look.cursor
            delivered(message, failures + 1)
            try:
                error = yield Handle(message)
            except GeneratorExit:
                self.inbox._leave(message)
                raise
            if error is None:
                self.inbox.ack(message)
                continue
            if not self._fail(message, error):
                pause_s = retry_pause_s(self.inbox.retry_pause_s, failures)
                yield Wait(self, listener, pause_s, whole=True)
                return


# The drivers of a delivery run: a plain loop, a plain iterator, and both for asyncio.

#: The advice of `run` for a handler that it does not take.
OF_COROUTINES = "give a plain function, or await Inbox.run_async with a coroutine function"


def run(delivery: DeliveryRun, handler: Callable[[Message], None]) -> None:
    """Call `handler` for each message, in this thread."""
    check_plain(handler, "run", instead=OF_COROUTINES)
    steps = delivery.steps()
    try:
        answer: Exception | None = None
        while (step := _next(steps, answer)) is not None:
            answer = None
            if isinstance(step, Handle):
                try:
                    with tracing.handling(step.message, delivery.inbox.agent):
                        call_plain(handler, step.message)
                except Exception as error:  # the run counts it, and delivers again or parks
                    answer = error
            else:
                step.wait()
    finally:
        steps.close()


def iterate(delivery: DeliveryRun) -> Iterator[Message]:
    """Yield each message; coming back for the next one means that it was handled."""
    steps = delivery.steps()
    try:
        while (step := _next(steps, None)) is not None:
            if isinstance(step, Handle):
                yield step.message
            else:
                step.wait()
    finally:
        steps.close()


async def run_async(delivery: DeliveryRun, handler: Callable[[Message], Awaitable[object]]) -> None:
    """Await `handler` for each message, in the event loop."""
    check_coroutine_function(handler, "run_async", instead="run takes plain functions")
    async with _Thread(delivery) as thread:
        answer: Exception | None = None
        while (step := await thread.next(answer)) is not None:
            answer = None
            try:
                with tracing.handling(step.message, delivery.inbox.agent):
                    refuse_unrun(await handler(step.message), handler)
            except Exception as error:  # the run counts it, and delivers again or parks
                answer = error


async def iterate_async(delivery: DeliveryRun) -> AsyncIterator[Message]:
    """Yield each message; coming back for the next one means that it was handled."""
    async with _Thread(delivery) as thread:
        while (step := await thread.next(None)) is not None:
            yield step.message


def _next(
    steps: Generator[Handle | Wait, Exception | None, None], answer: Exception | None
) -> Handle | Wait | None:
    """Answer the last step and return the next step; None when the run has ended."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


class _Thread:
    """The thread in which the run of an asynchronous loop reads, writes and waits.

    It is the same thread for the whole loop, because a connection belongs to its thread.
    """

    def __init__(self, delivery: DeliveryRun) -> None:
        self._delivery = delivery
        self._steps = delivery.steps()
        self._executor: Executor | None = None

    async def __aenter__(self) -> _Thread:
        from concurrent.futures import ThreadPoolExecutor

        self._executor = ThreadPoolExecutor(
            1, thread_name_prefix="ackbus-inbox", initializer=leave_signals
        )
        return self

    async def next(self, answer: Exception | None) -> Handle | None:
        """Answer the last message and wait for the next; None when the run has ended."""
        import asyncio

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._next_message, answer)

    def _next_message(self, answer: Exception | None) -> Handle | None:
        step = _next(self._steps, answer)
        while step is not None and not isinstance(step, Handle):
            step.wait()
            step = _next(self._steps, None)
        return step

    async def __aexit__(self, *error: object) -> None:
        import asyncio

        assert self._executor is not None
        self._delivery.stop()  # a cancelled wait still blocks the thread; this ends it
        await asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)

    def _close(self) -> None:
        self._steps.close()
        engine_of(self._delivery.inbox.bus).close_thread()
