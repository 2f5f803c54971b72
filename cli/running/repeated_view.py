"""`--watch`: a repeated view, in place on a terminal, line by line in a pipe."""

from __future__ import annotations

import time
from contextlib import contextmanager

from ...schema.errors import InvalidInput
from .. import arguments
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn, TypeVar

    #: Headings, and rows under them.
    Table = tuple[Sequence[str], Sequence[Sequence[object]]]

    #: One thing that is looked at, as a queue.
    Seen = TypeVar("Seen")


def watch(
    look: Callable[[], list[Seen]],
    every: str,
    *,
    table: Callable[[list[Seen]], Table],
    lines: Callable[[list[Seen]], None],
) -> NoReturn:
    """Look, show the result, wait, and repeat until Ctrl-C.

    Args:
        look: returns the things to show.
        every: the pause, as --every gave it.
        table: makes the table for a terminal.
        lines: prints lines where the output is no terminal.
    """
    every_s = arguments.seconds(every, "--every")
    if not every_s:
        raise InvalidInput("--every must be more than 0")
    with in_place(table) if output.is_terminal() else _in_lines(lines) as show:
        while True:
            show(look())
            time.sleep(every_s)


@contextmanager
def in_place(
    table: Callable[[list[Seen]], Table],
) -> Iterator[Callable[[list[Seen]], None]]:
    """Yield a function that draws a table over the one before it, on a terminal."""
    from ..show.terminal import table_in_place

    with table_in_place() as draw:

        def show(found: list[Seen]) -> None:
            headings, rows = table(found)
            draw(headings, output.cells_of(rows))

        yield show


@contextmanager
def _in_lines(
    lines: Callable[[list[Seen]], None],
) -> Iterator[Callable[[list[Seen]], None]]:
    def show(found: list[Seen]) -> None:
        lines(found)
        output.flush()  # whoever reads waits for the next line

    yield show
