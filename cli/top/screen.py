"""A terminal that is filled with a picture, and the parts of such pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from ..show import output
from ..show.terminal import console, fitted_table

Shown = TypeVar("Shown")

#: How many lines are left at least for what follows the tables, where there is room for it.
_LEAST_REST = 3


@contextmanager
def full_screen(
    picture: Callable[[Shown, int], RenderableType],
) -> Iterator[Callable[[Shown], None]]:
    """Yield a function that fills the terminal; the former screen comes back at the end.

    Args:
        picture: makes the picture for a terminal of so many lines.
    """
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda shown: live.update(picture(shown, console.height), refresh=True)


def shares(lines: int, wanted: Sequence[int]) -> list[int]:
    """Return the number of rows of each table, of lines that also hold headings and messages.

    Each table gets all its rows if a third of the lines is left to messages; a table may use the
    lines that the other does not need.
    """
    room = max(0, lines - max(_LEAST_REST, lines // 3))
    shares = dict.fromkeys(range(len(wanted)), 0)
    for left, table in enumerate(sorted(shares, key=lambda table: wanted[table])):
        share = min(wanted[table], room // (len(wanted) - left) - 1)
        if share > 0:
            shares[table] = share
            room -= share + 1
    return list(shares.values())


def part(
    what: str, which: str, headings: Sequence[str], rows: Sequence[Sequence[object]], count: int
) -> list[RenderableType]:
    """Return a table of the first rows, by name, so that rows keep their places."""
    if not count:
        return [line(f"{len(rows) or 'no'} {what}", "dim")]
    shown = sorted(rows[:count], key=lambda row: str(row[0]))
    above = f"{what}: the {which} {count}" if count < len(rows) else ""
    return [line(above, "dim"), fitted_table(headings, output.cells_of(shown))]


def line(text: str, style: str) -> Text:
    """Return one line, cut at the edge of the terminal."""
    return cut(Text(output.visible(text), style))


def cut(text: Text) -> Text:
    """Keep a line from taking more than one of the terminal's."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
