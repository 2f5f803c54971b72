"""Processes: starting threads so that signals find their way, and how long others have run."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .process_table import is_running, process

#: By how much a clock may be set forward before a process is taken for a later one, in seconds.
_SLACK_S = 1.0

#: As many open files as a server asks for: with more, children that close all numbers are slow.
_OPEN_FILES = 65_536

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


def raise_open_files() -> None:
    """Raise the limit of open files of this process, to 65,536 where it may."""
    import resource  # few processes need it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return
    with suppress(OSError, ValueError):  # some systems have a lower limit than they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def leave_signals() -> set[int | Signals]:
    """Block all signals in this thread, and return the mask that it had."""
    import signal

    return signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def has_run_for(pid: int, age_s: float) -> bool:
    """Whether the process that had this id so long ago still runs.

    An id alone proves nothing: after a start of the system, or of a container, another process has
    it soon, which is younger than a record of the first. The process was on this host, since no bus
    is on a network filesystem. Where the system does not tell the age of a process, its id counts.

    Args:
        pid: its id, on this host.
        age_s: how long ago it had this id, in seconds; below 0 where the clock was set back.
    """
    if not is_running(pid):
        return False
    lived_s = _lived_s(pid)
    return lived_s is None or lived_s >= age_s - _SLACK_S


def _lived_s(pid: int) -> float | None:
    """Return the age of a process in seconds, by a clock that can't be set; None if unknown."""
    entry = process(pid)  # counted since the system's start, with the time that it slept
    if entry is None or not entry.started.isdigit():
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(entry.started) / os.sysconf("SC_CLK_TCK")
