"""Progress of long work, on stderr, for people only."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Give a function to be told how much is done; it shows a bar where a person watches."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from .terminal import progress_bar

    with progress_bar(what, total) as move:
        yield move
