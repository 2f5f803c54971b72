"""Signals that end a service within a time limit, also while C code of a library runs.

A handler in Python runs between two steps of the interpreter. Where C code loops and keeps the
interpreter, it never runs; so the limit is the kernel's. A signal with such a handler makes the
interpreter's own code write a byte into a pipe; the kernel answers with a second signal to the
process, whose handler is the C function `alarm`: it gets the signal's number as its argument, and
that is the limit in seconds. The handler in Python, when it runs, sets the timer again, or lifts
it. When the time is over the process dies by SIGALRM, and its work is an orphan, as after a kill.
The kernel keeps default actions from the first process of a container: there the handler of SIGALRM
is the C function `_exit`.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import NoReturn

    Handler = Callable[[int, FrameType | None], object]

#: The longest that a service goes on after a signal to end, in seconds: the number of SIGIO.
STOP_LIMIT_S = 29


def obey(
    stop: Handler,
    *numbers: int,
    limit_s: int = STOP_LIMIT_S,
    keeps_ignored: bool = False,
) -> None:
    """Have signals end this process: they call `stop`, and it ends within the limit in any case.

    Call it from the main thread. Other signals with handlers in Python go through `heed`.

    Args:
        stop: called in the main thread; it may lift the limit.
        numbers: the signals.
        limit_s: how long the process may go on then, in seconds; it must be a signal's number.
        keeps_ignored: whether an ignored signal stays ignored, as under nohup.
    """
    _arm_by_kernel(limit_s)

    def handle(number: int, frame: FrameType | None) -> None:
        global _is_stopping
        _is_stopping = True
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        _drain()
        stop(number, frame)

    for number in numbers:
        if not (keeps_ignored and signal.getsignal(number) is signal.SIG_IGN):
            signal.signal(number, handle)


def heed(handler: Handler, *numbers: int) -> None:
    """Handle signals that end nothing: the time that the kernel took is given back."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not _is_stopping:
            lift_limit()
        _drain()
        handler(number, frame)

    for number in numbers:
        signal.signal(number, handle)


def lift_limit() -> None:
    """Take the limit away: for work that a person may end by a second signal."""
    global _is_stopping
    _is_stopping = False
    signal.setitimer(signal.ITIMER_REAL, 0)


def end_by(number: int) -> NoReturn:
    """End this process at once as a signal would, also where it is the first of a container."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)


@contextmanager
def obeyed(stop: Handler, *numbers: int) -> Iterator[None]:
    """Obey signals within the block, which may be a part of another program."""
    global _pipe
    before = {caught: signal.getsignal(caught) for caught in numbers}
    obey(stop, *numbers)
    try:
        yield
    finally:
        lift_limit()
        for number, handler in before.items():
            signal.signal(number, handler)
        if _pipe is not None:
            signal.set_wakeup_fd(-1)
            for end in _pipe:
                os.close(end)
            _pipe = None


#: Whether a signal to end has been handled, and its limit was not lifted.
_is_stopping = False

#: The pipe that the interpreter's own code writes into, once there is one.
_pipe: tuple[int, int] | None = None


def _arm_by_kernel(limit_s: int) -> None:
    """Have the kernel begin the limit by itself; elsewhere than on Linux only Python does."""
    global _pipe
    if _pipe is not None:
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform != "linux":
        return
    import ctypes
    import fcntl

    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    libc.signal(limit_s, ctypes.cast(libc.alarm, ctypes.c_void_p))
    if os.getpid() == 1:
        libc.signal(signal.SIGALRM, ctypes.cast(libc._exit, ctypes.c_void_p))
    reader, writer = _pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reader, fcntl.F_SETSIG, limit_s)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)


def _drain() -> None:
    if _pipe is not None:
        with suppress(BlockingIOError):
            os.read(_pipe[0], 4096)
