"""The drivers of the delivery rules: a plain loop, a plain iterator, and both for asyncio."""

from __future__ import annotations

from ...bus import tracing
from ...schema.callbacks import call_plain, check_coroutine_function, check_plain, refuse_unrun
from ...schema.processes import leave_signals
from ...schema.queries import engine_of
from .delivery_loop import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
    from concurrent.futures import Executor

    from ...schema.message.message import Message
    from .delivery_loop import Rules, Wait


#: The advice of `run` for a handler that it does not take.
OF_COROUTINES = "give a plain function, or await Inbox.run_async with a coroutine function"


def run(rules: Rules, handler: Callable[[Message], None]) -> None:
    """Call `handler` for each message, in this thread."""
    check_plain(handler, "run", instead=OF_COROUTINES)
    steps = rules.steps()
    try:
        answer: Exception | None = None
        while (step := _next(steps, answer)) is not None:
            answer = None
            if isinstance(step, Handle):
                try:
                    with tracing.handling(step.message, rules.inbox.agent):
                        call_plain(handler, step.message)
                except Exception as error:  # the rules count it, and deliver again or park
                    answer = error
            else:
                step.wait()
    finally:
        steps.close()


def iterate(rules: Rules) -> Iterator[Message]:
    """Yield each message; coming back for the next one means that it was handled."""
    steps = rules.steps()
    try:
        while (step := _next(steps, None)) is not None:
            if isinstance(step, Handle):
                yield step.message
            else:
                step.wait()
    finally:
        steps.close()


async def run_async(rules: Rules, handler: Callable[[Message], Awaitable[object]]) -> None:
    """Await `handler` for each message, in the event loop."""
    check_coroutine_function(handler, "run_async", instead="run takes plain functions")
    async with _Thread(rules) as thread:
        answer: Exception | None = None
        while (step := await thread.next(answer)) is not None:
            answer = None
            try:
                with tracing.handling(step.message, rules.inbox.agent):
                    refuse_unrun(await handler(step.message), handler)
            except Exception as error:  # the rules count it, and deliver again or park
                answer = error


async def iterate_async(rules: Rules) -> AsyncIterator[Message]:
    """Yield each message; coming back for the next one means that it was handled."""
    async with _Thread(rules) as thread:
        while (step := await thread.next(None)) is not None:
            yield step.message


def _next(
    steps: Generator[Handle | Wait, Exception | None, None], answer: Exception | None
) -> Handle | Wait | None:
    """Answer the last step and return the next one; None when the rules are through."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


class _Thread:
    """The thread in which the rules of an asynchronous loop read, write and wait.

    It is one thread for the whole loop, because a connection belongs to its thread.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._steps = rules.steps()
        self._executor: Executor | None = None

    async def __aenter__(self) -> _Thread:
        from concurrent.futures import ThreadPoolExecutor

        self._executor = ThreadPoolExecutor(
            1, thread_name_prefix="ackbus-inbox", initializer=leave_signals
        )
        return self

    async def next(self, answer: Exception | None) -> Handle | None:
        """Answer the last message and wait for the next; None when the rules are through."""
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
        self._rules.stop()  # a cancelled wait still blocks the thread; this ends it
        await asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)

    def _close(self) -> None:
        self._steps.close()
        engine_of(self._rules.inbox.bus).close_thread()
