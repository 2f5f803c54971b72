"""What people see on a terminal: colours, tables, progress. Loaded only there."""

from __future__ import annotations

from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .output import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .output import Parts

#: The styles of the parts of a message's line: seq, time, route, type, payload.
_STYLES = ("bold", "dim", "cyan", "green", "")

#: The styles of words that say how an agent, a queue or a job is.
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

_console = Console(highlight=False, markup=False, emoji=False)


def print_message(parts: Parts) -> None:
    """Print a message as one line, cut at the edge of the terminal."""
    styled = [Text(visible(part), style) for part, style in zip(parts, _STYLES, strict=True)]
    _console.print(Text("  ").join(styled), no_wrap=True, overflow="ellipsis")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows whose cells are safe already."""
    _console.print(_table(headings, rows))


@contextmanager
def table_in_place() -> Iterator[Callable[[Sequence[str], Sequence[Sequence[str]]], None]]:
    """Give a function that draws a table over the one before; the last one stays."""
    with Live(console=_console, auto_refresh=False) as live:
        yield lambda headings, rows: live.update(_table(headings, rows), refresh=True)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, _STATES.get(cell, "")) for cell in row))
    return table


def print_branch(prefix: str, text: str, style: str) -> None:
    """Print one line of a tree, cut at the edge of the terminal."""
    drawn = Text(prefix, "dim").append(visible(text), style)
    _console.print(drawn, no_wrap=True, overflow="ellipsis")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Show a bar on stderr once the work has taken a second; gives a function that moves it.

    Args:
        what: what is being done.
        total: how much there is; None when nobody knows.
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
        bar.stop()
