"""Run programs under a time limit, and bound how long a command waits for git."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar

from ..schema.children import ExitedChild
from ..schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..workers.processes.own_child import StopSwitch

# The limit of a look: how long one command that looks may wait for git, over all its calls.
#
# A file of git's may turn out to be a pipe without a writer, or an endless device, and a
# repository may be too large to look into. The command then fails in time instead of hanging.

#: How long a look may wait for git in all, in seconds. A command that looks ends within 20.
LOOK_S = 15.0


class LookTimer:
    """The time limit of a look that is under way, from its first call of git on."""

    def __init__(self) -> None:
        self._end_s: float | None = None

    def seconds_left(self) -> float:
        """Return how long git may still take; 0 when the time is over."""
        now_s = time.monotonic()
        if self._end_s is None:
            self._end_s = now_s + LOOK_S
        return max(0.0, self._end_s - now_s)


_look: ContextVar[LookTimer | None] = ContextVar("look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Within the block git has one limit for all its calls; it is also a decorator.

    A look within a look is a part of it. Threads that are started within the block take part by
    `join_look`. A generator can't hold the block open: the code that consumes it must.
    """
    if _look.get() is not None:
        yield
        return
    token = _look.set(LookTimer())
    try:
        yield
    finally:
        _look.reset(token)


def seconds_left() -> float | None:
    """Return how long git may still take, 0 when the time is over; None: nobody looks."""
    look = _look.get()
    return None if look is None else look.seconds_left()


def current_look() -> LookTimer | None:
    """Return the look that is under way in this thread, or None."""
    return _look.get()


def join_look(look: LookTimer | None) -> None:
    """Have this thread take part in the look of the thread that started it."""
    _look.set(look)


# A signal that ends a command that looks waits while a git is being started.
#
# An exception in the middle of a start would leave a git behind that nobody knows, which may wait
# for ever.

#: Whether the main thread, which alone hears signals, starts a git now.
_is_starting = False

#: The ends that came meanwhile.
_put_off: list[Callable[[], object]] = []


def unless_starting(end: Callable[[], object]) -> None:
    """Call what raises the end of the command: now, or once the git is started."""
    if _is_starting:
        _put_off.append(end)
    else:
        end()


@contextmanager
def starting() -> Iterator[None]:
    """Within the block a git is started; its end may raise, so it stands where git is ended then.

    In other threads, where no signal is heard, it does nothing.
    """
    global _is_starting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _is_starting = True
    try:
        yield
    finally:
        _is_starting = False
    if _put_off:
        end = _put_off[0]
        _put_off.clear()
        end()


#: How much is kept of the end of what a program of the user prints, in bytes.
_KEPT_BYTES = 64 * 1024

#: The bounds of a git that looks, in bytes: of its memory, but for files that it maps, and of its
#: output: more than the ids of all commits of any project. What it reads may be a device without
#: end, and a few KiB of objects may stand for many GB.
LOOK_BOUNDS = {"RLIMIT_DATA": 2 * 1024 * 1024 * 1024, "RLIMIT_FSIZE": 256 * 1024 * 1024}


#: How long a line may be, in bytes: far more than a message has in any form.
_LINE_BYTES = 64 * 1024 * 1024

#: How much is read of a pipe at once, in bytes: all that it holds.
_CHUNK_BYTES = 64 * 1024


class ProgramNotStarted(AckbusError):
    """A program of the user can't be started."""


class ProgramStopped(AckbusError):
    """A program of the user was ended early, because its runner is stopping."""


def run_guarded(
    command: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    limit_s: float,
    stop: StopSwitch | None = None,
) -> ExitedChild | None:
    """Run a program of the user; None: it reached its limit, and was ended.

    All its children end with it; where the kernel supports that, also when this process is
    killed: nobody else knows of a hook that hangs.

    Args:
        command: the program and its arguments.
        folder: where it runs.
        environment: all of its variables.
        limit_s: after how many seconds it is ended.
        stop: ends it early.

    Raises:
        ProgramNotStarted: it can't be started.
        ProgramStopped: the switch was thrown before it had ended.
    """
    from ..workers.processes.run_process import run_process
    from ..workers.processes.supervisors import Supervisors

    output_tails = {"stdout": bytearray(), "stderr": bytearray()}

    def keep(stream: str, data: bytes) -> None:
        output_tails[stream] += data
        del output_tails[stream][:-_KEPT_BYTES]

    with Supervisors() as supervisors:
        end = run_process(
            command,
            b"",
            env=environment,
            cwd=folder,
            timeout_s=limit_s,
            max_stdout_bytes=None,
            max_stderr_bytes=None,
            stop=stop,
            supervisors=supervisors,
            output=keep,
        )
    if end.stopped:
        raise ProgramStopped(f"{command[0]} was ended early")
    if end.start_error is not None:
        raise ProgramNotStarted(end.start_error)
    if end.exit_code is None:
        return None
    return ExitedChild(end.exit_code, bytes(output_tails["stdout"]), bytes(output_tails["stderr"]))


def lines_of(descriptor: int, first_s: float | None, next_s: float | None) -> Iterator[bytes]:
    """Yield the lines of a pipe, each with its end.

    Args:
        descriptor: of the pipe.
        first_s: how long its first bytes are waited for; None: as long as it takes.
        next_s: the same for all later bytes.

    Raises:
        TimeoutError: nothing came in time.
        OverflowError: a line is too long to be one.
    """
    import select

    readiness = select.poll()
    readiness.register(descriptor, select.POLLIN)
    begun: list[bytes] = []  # a line whose end has not come
    begun_bytes = 0
    wait_s = first_s
    while True:
        if not readiness.poll(None if wait_s is None else wait_s * 1000):
            raise TimeoutError
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            break
        wait_s = next_s
        whole, end, rest = data.rpartition(b"\n")
        if end:
            yield from (line + b"\n" for line in b"".join([*begun, whole]).split(b"\n"))
            begun = []
            begun_bytes = 0
        begun.append(rest)
        begun_bytes += len(rest)
        if begun_bytes > _LINE_BYTES:
            raise OverflowError(f"a line has more than {_LINE_BYTES >> 20} MiB")
    if last := b"".join(begun):
        yield last
