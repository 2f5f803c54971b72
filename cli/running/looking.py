"""Commands that only look: git has one time limit in all, and a signal leaves nothing behind."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from functools import partial

from ...git.limited import one_look, unless_starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

#: The signals, each with the handler that a command has for it by itself.
_TO_END = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@contextmanager
def looking() -> Iterator[None]:
    """Within the block the command looks; it is also a decorator.

    A signal that would kill the process ends the block as Ctrl-C does: processes that git started
    are ended, and temporary folders are removed. The exit code is 128 and the signal.
    """
    # One that is ignored, as under nohup, or handled already, stays as it is.
    ours = {number: own for number, own in _TO_END.items() if signal.getsignal(number) is own}
    for number in ours:
        signal.signal(number, _raise_interrupt)
    try:
        with one_look():
            yield
    finally:
        for number, own in ours.items():
            signal.signal(number, own)


def _raise_interrupt(number: int, _: FrameType | None) -> None:
    unless_starting(partial(_end, number))


def _end(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
