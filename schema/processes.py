"""Processes: starting threads so that signals find their way, who is there, which boot this is."""

from __future__ import annotations

import os
from functools import cache

#: Where Linux tells it.
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import Signals
    from threading import Thread


def start_thread(target: Callable[[], object], name: str) -> Thread:
    """Start a thread that lets the process end without it, and leaves signals to the main thread.

    The kernel may hand a signal to any thread. One that takes it would leave the main thread in
    its blocking call, and Python runs handlers nowhere else.
    """
    import signal  # slow to load, as threads are, and the hot commands start none
    import threading

    thread = threading.Thread(target=target, name=name, daemon=True)
    # Asked for by itself: the handler of a signal may raise as soon as they are blocked.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        leave_signals()
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return thread


def leave_signals() -> set[int | Signals]:
    """Block all signals in this thread, and return the mask that it had."""
    import signal

    return signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def is_running(pid: int) -> bool:
    """Whether there is a process with this id; one that is only hidden from us counts."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


@cache
def boot_id() -> str:
    """Return what is another text after every start of the system; empty where it doesn't tell."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
