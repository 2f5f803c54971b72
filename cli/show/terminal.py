"""Output on a terminal: colours, tables, progress. Loaded only there."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .text import Parts

    #: The heading of a column, and its cells.
    Column = tuple[str, ...]

#: The styles of the parts of a message's line: seq, time, route, type, payload.
_STYLES = ("bold", "dim", "cyan", "green", "")

#: The styles of the states of agents, queues and jobs.
_STATES = {
    "alive": "green",
    "warn": "yellow",
    "stale": "red",
    "dead": "bold red",
    "paused": "yellow",
    "saturated": "red",
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "timed_out": "red",
}

#: The space between columns, and the least width of free text while there is room.
_GAP, _LEAST_TEXT = 2, 16

#: Cells without information.
_NOTHING = {"", "0", "-"}

console = Console(highlight=False, markup=False, emoji=False)


def print_message(
    parts: Parts, marks: Sequence[tuple[int, int]] = (), *, is_cut: bool = True
) -> None:
    """Print a message as one line.

    Args:
        parts: the parts of the line.
        marks: the spans of the searched words in the payload, in characters.
        is_cut: cut the line at the edge of the terminal; else the terminal wraps it.
    """
    text = message_line(parts, marks)
    if is_cut:
        console.print(text, no_wrap=True, overflow="ellipsis")
    else:
        console.print(text, soft_wrap=True)


def message_line(parts: Parts, marks: Sequence[tuple[int, int]] = ()) -> Text:
    """Return the line of a message, as `print_message` prints it."""
    styled = [Text(visible(part), style) for part, style in zip(parts, _STYLES, strict=True)]
    payload = parts[-1]
    for start, end in marks:
        styled[-1].stylize(
            "bold yellow", *(len(visible(payload[:place])) for place in (start, end))
        )
    return Text("  ").join(styled)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows whose cells are safe already."""
    table = fitted_table(headings, rows)
    console.print(table)
    shown = {column.header for column in table.columns}
    hidden = [heading for heading in headings if heading not in shown]
    if hidden:
        console.print(f"empty columns left out: {', '.join(hidden)}", style="dim")


@contextmanager
def table_in_place() -> Iterator[Callable[[Sequence[str], Sequence[Sequence[str]]], None]]:
    """Yield a function that draws a table over the one before; the last one stays."""
    with Live(console=console, auto_refresh=False) as live:
        yield lambda headings, rows: live.update(fitted_table(headings, rows), refresh=True)


def fitted_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table that fits the terminal and breaks no word.

    Headings of several words may take several lines. If that does not suffice, columns without
    information are left out, then the last column, which is the free text if there is any, is cut
    with an ellipsis, and after it the widest one.
    """
    columns = _informative(list(zip(headings, *rows, strict=True)))
    table = Table(box=None, header_style="bold", padding=(0, _GAP, 0, 0), pad_edge=False)
    for column, width in zip(columns, _widths(columns), strict=True):
        table.add_column(column[0], width=width)
    for row in zip(*(column[1:] for column in columns), strict=True):
        cells = (
            Text(cell, _STATES.get(cell, ""), no_wrap=True, overflow="ellipsis") for cell in row
        )
        table.add_row(*cells)
    return table


def _informative(columns: list[Column]) -> list[Column]:
    """Leave out columns without information, from the right, until the others fit."""
    fitting = list(columns)
    for index in reversed(range(1, len(columns))):
        if (
            _excess([_width(column) for column in fitting]) > 0
            and set(columns[index][1:]) <= _NOTHING
        ):
            del fitting[index]
    return fitting


def _widths(columns: list[Column]) -> list[int]:
    widths = [_width(column) for column in columns]
    excess = max(0, _excess(widths))
    cut = max(0, min(excess, widths[-1] - _LEAST_TEXT))
    widths[-1] -= cut
    for _ in range(excess - cut):
        widths[widths.index(max(widths))] -= 1
    return widths


def _width(column: Column) -> int:
    """Return the least width of a column that breaks no word of its heading and no cell."""
    return max(map(cell_len, (*column[0].split(), *column[1:])))


def _excess(widths: Sequence[int]) -> int:
    """Return the excess of the columns' widths over the terminal's."""
    return sum(widths) + _GAP * (len(widths) - 1) - console.width


def print_branch(prefix: str, text: str, style: str) -> None:
    """Print one line of a tree, cut at the edge of the terminal."""
    drawn = Text(prefix, "dim").append(visible(text), style)
    console.print(drawn, no_wrap=True, overflow="ellipsis")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Show a bar on stderr once the work has taken a second; yields a function that moves it.

    Args:
        what: the name of the work.
        total: the amount of work; None when it is unknown.
    """
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total)
    started = bar.get_time()

    def move(done: int) -> None:
        if not bar.live.is_started and bar.get_time() - started > 1:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield move
    finally:
        if bar.live.is_started:  # else it would print an empty line
            bar.stop()


# Progress of long work, on stderr, for people only.

#: After how long something is shown, in seconds: a bar asks for more than one.
_PATIENCE_S = 1.1


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Yield a function that takes the amount done; on a terminal it shows a bar."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return

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
            timer.join()  # else it could show the bar after the end
