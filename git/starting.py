"""A signal that ends a command that looks waits while a git is being started.

An exception in the middle of a start would leave a git behind that nobody knows, which may wait
for ever.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
