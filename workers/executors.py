"""Executors, which do work in the worker's own thread, in several threads, or in an event loop.

An executor starts work on claims, and collects the results. The worker alone writes to the bus, in
its own thread, so that results of about the same time are written in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from queue import Empty, SimpleQueue

from ..bus import tracing
from ..schema.callbacks import refuse_unrun
from ..schema.processes import start_thread
from ..subscribers.jobs.claims import Outcome
from .work import AttemptResult, checked_result, do, result_of, result_of_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor as PythonExecutor
    from concurrent.futures import Future
    from typing import Protocol

    from ..schema.engine import Engine
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim
    from .work import Work

    Ended = tuple[Claim, AttemptResult]

    class Executor(Protocol):
        """Does the work of a worker's claims."""

        def room(self) -> int:
            """Return how many claims may be started now."""

        def start(self, claims: Sequence[Claim]) -> None:
            """Start work on claims."""

        def ended(self) -> list[Ended]:
            """Return the results since the last call."""

        def stop(self, claim: Claim, grace_s: float) -> None:
            """End the work on a claim early, where that is possible."""

        def close(self) -> None:
            """Release all resources; no work runs any more."""

# Awaiting what blocks, in a thread of its own.


async def in_thread(call: Callable[[], int], name: str, stop: Callable[[], None]) -> int:
    """Call something in a thread, and return what it returns, or raise what it raises.

    Args:
        call: what blocks.
        name: the thread's.
        stop: makes `call` return soon: when this is cancelled, it still waits for that.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def settle(how: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if ended.done() else how())

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # the awaiting coroutine is to have it
            failure = error
            settle(lambda: ended.set_exception(failure))
        else:
            settle(lambda: ended.set_result(value))

    thread = start_thread(run, name)
    try:
        return await ended
    except asyncio.CancelledError:
        stop()
        raise
    finally:
        await loop.run_in_executor(None, thread.join)


#: For how long ends wait for others before they are written together, in seconds; and so much
#: quick work is claimed at once.
GATHER_S = 0.005

#: How many claims are worked on in turn at the most before the next are taken.
MAX_BATCH = 32

#: How much longer than expected quick work may take before what was claimed with it is handed
#: back, for other workers to take, in seconds.
SHARE_AFTER_S = 0.1

#: The result of claims that `InlineExecutor` did not begin.
_NOT_BEGUN = AttemptResult(None)


class InlineExecutor:
    """Does the work in the worker's own thread, one claim after the other.

    Work that takes microseconds is claimed by the dozen, and its ends are written by the dozen;
    longer work is claimed one by one, so that other workers get their share. A claim that turns out
    to take longer sends the rest of its dozen back.

    Args:
        work: the work.
        write: writes the ends down; it may be called while work is started.
        is_stopping: whether no more work may begin.
    """

    def __init__(
        self, work: Work, write: Callable[[], None], is_stopping: Callable[[], bool]
    ) -> None:
        self._work = work
        self._write = write
        self._is_stopping = is_stopping
        self._ended: list[Ended] = []
        self._batch = 1

    def room(self) -> int:
        """Return how many claims the next few milliseconds have room for."""
        return self._batch

    def start(self, claims: Sequence[Claim]) -> None:
        """Do the work; what takes long is written down before the next is begun."""
        worked_s = 0.0
        done = 0
        written = time.monotonic()
        waiting = list(reversed(claims))
        try:
            while waiting and not self._is_stopping() and worked_s <= SHARE_AFTER_S:
                begun = time.monotonic()
                result = do(self._work, waiting[-1])
                self._ended.append((waiting.pop(), result))
                now = time.monotonic()
                worked_s += now - begun
                done += 1
                if now - written > GATHER_S:
                    self._write()
                    written = time.monotonic()
        finally:  # also when a Ctrl-C cuts in: what was interrupted goes back too
            self._ended += [(claim, _NOT_BEGUN) for claim in reversed(waiting)]
        fitting = int(GATHER_S * done / worked_s) if worked_s else MAX_BATCH
        self._batch = max(1, min(fitting, 2 * self._batch, MAX_BATCH))

    def ended(self) -> list[Ended]:
        """Return what has ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def stop(self, claim: Claim, grace_s: float) -> None:
        """End the work on a claim early; called from other threads and from signal handlers."""
        self._work.stop(claim, grace_s)

    def close(self) -> None:
        """Do nothing."""


class ThreadExecutor:
    """Does the work in several threads.

    Args:
        work: what to do.
        count: how many threads.
        wake: called from a thread whenever work has ended.
    """

    def __init__(self, work: Work, count: int, wake: Callable[[], None]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._work = work
        self._free = count
        self._wake = wake
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        # They block no signals: what a handler starts would inherit that, and could not be ended.
        self._pool: PythonExecutor = ThreadPoolExecutor(count, thread_name_prefix="ackbus-work")

    def room(self) -> int:
        """Return how many threads have nothing to do."""
        return self._free

    def start(self, claims: Sequence[Claim]) -> None:
        """Hand each claim to a thread."""
        for claim in claims:
            self._free -= 1
            self._pool.submit(self._do, claim)

    def ended(self) -> list[Ended]:
        """Return what has ended since the last call."""
        ended = taken_from(self._ended)
        self._free += len(ended)
        return ended

    def stop(self, claim: Claim, grace_s: float) -> None:
        """End the work on a claim early."""
        self._work.stop(claim, grace_s)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False)

    def _do(self, claim: Claim) -> None:
        try:
            self._ended.put((claim, do(self._work, claim)))
        except BaseException as error:  # a handler that wants to end the process: it can't, here
            self._ended.put((claim, result_of_error(error)))
        self._wake()


class TaskExecutor:
    """Awaits a coroutine function for each claim, in an event loop that another thread runs.

    Args:
        handler: the coroutine function.
        engine: the bus's.
        loop: the loop.
        count: how many at once.
        timeout_s: how long each may take, or None.
        wake: called from the loop whenever one has ended.
        is_stopping: whether the worker is to end.
    """

    def __init__(
        self,
        handler: Callable[[Message], Awaitable[object]],
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        count: int,
        timeout_s: float | None,
        wake: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._is_stopping = is_stopping
        self._handler = handler
        self._engine = engine
        self._loop = loop
        self._free = count
        self._timeout_s = timeout_s
        self._wake = wake
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._is_interrupted = False
        self._awaiting = 0  # how many handlers have begun and not ended; only in the loop's thread

    def room(self) -> int:
        """Return how many more may run at once."""
        return 0 if self._is_interrupted else self._free

    def start(self, claims: Sequence[Claim]) -> None:
        """Begin to await the handler for each claim."""
        import asyncio

        for claim in claims:
            self._free -= 1
            future = asyncio.run_coroutine_threadsafe(self._do(claim), self._loop)
            future.add_done_callback(partial(self._note, claim))

    def ended(self) -> list[Ended]:
        """Return what has ended since the last call."""
        ended = taken_from(self._ended)
        self._free += len(ended)
        return ended

    def stop(self, claim: Claim, grace_s: float) -> None:
        """Do nothing: what the handler awaits is its own affair."""

    def close(self) -> None:
        """Do nothing: the loop is its owner's."""

    async def _do(self, claim: Claim) -> AttemptResult:
        self._awaiting += 1
        try:
            result = await self._await(claim)
        finally:
            self._awaiting -= 1
        # While other handlers run, an open transaction may be theirs.
        return result if self._awaiting else checked_result(self._engine, result)

    async def _await(self, claim: Claim) -> AttemptResult:
        import asyncio

        limit = asyncio.timeout(self._timeout_s)
        try:
            with tracing.handling(claim.message, claim.group):
                async with limit:
                    value = await self._handler(claim.message)
                    refuse_unrun(value, self._handler)
                    return result_of(value)
        except asyncio.CancelledError as error:
            if self._is_stopping():
                return AttemptResult(None)
            return result_of_error(error)  # what the handler waited for was cancelled
        except KeyboardInterrupt:  # the program has to end: no more work begins
            self._is_interrupted = True
            raise
        except BaseException as error:  # any error, also SystemExit, ends this attempt
            is_late = isinstance(error, TimeoutError) and limit.expired()
            return self._timed_out() if is_late else result_of_error(error)

    def _note(self, claim: Claim, future: Future[AttemptResult]) -> None:
        # A task that was cancelled before its first step, or by a Ctrl-C, has no result: the job
        # is handed back.
        is_cut_off = future.cancelled() or future.exception() is not None
        self._ended.put((claim, AttemptResult(None) if is_cut_off else future.result()))
        self._wake()

    def _timed_out(self) -> AttemptResult:
        text = f"the handler timed out after {self._timeout_s:g} s"
        return AttemptResult(Outcome(status="timed_out", error=text), payload=text)


def taken_from(queue: SimpleQueue[Ended]) -> list[Ended]:
    """Take all that is in a queue."""
    taken: list[Ended] = []
    try:
        while True:
            taken.append(queue.get_nowait())
    except Empty:
        return taken
