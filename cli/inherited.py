"""The state that a parent leaves to a command: signals and descriptors, put right once.

A parent may ignore or block signals, or close the standard streams, and a program inherits that. An
ignored SIGCHLD hides how children end; an ignored or blocked SIGTERM keeps a person or a crew from
ending a program; the number of a closed stream goes to the next file that is opened, and children
would print into it. What nohup and a shell's background jobs ignore (SIGHUP, SIGINT, SIGQUIT) is
intended, and stays ignored.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would be a module more
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: The signals whose default action a command needs.
_NEEDED = (_signal.SIGCHLD, _signal.SIGTERM)

#: The signals that end a process, unless it is the first of a container.
_ENDING = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)


def put_right() -> None:
    """Give this process the signals and descriptors that it needs, and its children after it."""
    for number in _NEEDED:
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    if os.getpid() == 1:
        for number in _ENDING:
            if _signal.getsignal(number) == _signal.SIG_DFL:
                _signal.signal(number, _end)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _occupy_streams()


def _end(number: int, frame: object) -> NoReturn:
    """End as the signal would: in the first process the kernel ignores its default action."""
    raise SystemExit(128 + number)


def _occupy_streams() -> None:
    """Replace each closed standard stream by one that gives no bytes and takes none."""
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
