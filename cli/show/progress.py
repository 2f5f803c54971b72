"""Progress of long work, on stderr, for people only."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: After how long something is shown, in seconds: a bar asks for more than one.
_PATIENCE_S = 1.1


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Yield a function that takes the amount done; on a terminal it shows a bar."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from .terminal import progress_bar

    with progress_bar(what, total) as move:
        yield move


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show an activity bar for work of unknown length once it takes more than a second."""
    from threading import Timer

    with progress(what, None) as move:
        timer = Timer(_PATIENCE_S, move, (0,))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # else it could show the bar when that has gone
