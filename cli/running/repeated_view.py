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
    from typing import NoReturn

    from ...subscribers.queues.statistics import QueueStats

    #: Headings, and rows under them.
    Table = tuple[Sequence[str], Sequence[Sequence[object]]]

    Show = Callable[[list[QueueStats]], None]


def watch(
    look: Callable[[], list[QueueStats]],
    every: str,
    *,
    table: Callable[[list[QueueStats]], Table],
    lines: Show,
) -> NoReturn:
    """Look, show the result, wait, and repeat until Ctrl-C.

    Args:
        look: returns the statistics.
        every: the pause, as --every gave it.
        table: makes the table for a terminal.
        lines: prints lines where the output is no terminal.
    """
    every_s = arguments.seconds(every, "--every")
    if not every_s:
        raise InvalidInput("--every must be more than 0")
    with _in_place(table) if output.is_terminal() else _in_lines(lines) as show:
        while True:
            show(look())
            time.sleep(every_s)


@contextmanager
def _in_place(table: Callable[[list[QueueStats]], Table]) -> Iterator[Show]:
    from ..show.terminal import table_in_place

    with table_in_place() as draw:

        def show(found: list[QueueStats]) -> None:
            headings, rows = table(found)
            draw(headings, output.cells_of(rows))

        yield show


@contextmanager
def _in_lines(lines: Show) -> Iterator[Show]:
    def show(found: list[QueueStats]) -> None:
        lines(found)
        output.flush()  # whoever reads waits for the next line

    yield show
