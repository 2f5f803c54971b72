"""A snapshot of a bus on a terminal: three parts, which share its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ...schema.message.times import format_ts
from ..show import output
from ..show.terminal import console, fitted_table, message_line
from .sight import AGENT_HEADINGS, QUEUE_HEADINGS, Sight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..show.text import Parts

#: The lines that are always there: the first, the last, and an empty one above each part.
_FRAME_LINES = 5

#: The characters of a timestamp that are its date, and those after it that are hours to seconds.
_DATE, _CLOCK = len("2026-01-10"), len("14:00:00")

#: How many messages are shown at least, where there is room for anything but the tables.
_LEAST_MESSAGES = 3


@contextmanager
def full_screen() -> Iterator[Callable[[Sight], None]]:
    """Yield a function that fills the terminal; the former screen comes back at the end."""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda sight: live.update(picture(sight, console.height), refresh=True)


def picture(sight: Sight, height: int) -> RenderableType:
    """Return the picture for a terminal of so many lines; never more lines than it has."""
    agents = [agent.row() for agent in sight.agents]
    queues = sight.queue_rows()
    rows = _shares(height - _FRAME_LINES, [len(agents), len(queues)])
    parts: list[RenderableType] = [_line(sight.headline(), "bold")]
    parts += _part("agents", "latest", AGENT_HEADINGS, agents, rows[0])
    parts += _part("queues", "first", QUEUE_HEADINGS, queues, rows[1])
    used = 3 + sum(2 + count if count else 1 for count in rows)
    left = max(0, height - used)
    newest = sight.messages[-left:] if left else []
    today = format_ts(sight.at_ms)[:_DATE]
    parts += [Text(""), *(_cut(message_line(_shortened(shown, today))) for _, shown in newest)]
    parts += [_line("q ends", "dim")]
    return Group(*parts[: max(1, height)])


def _shares(lines: int, wanted: Sequence[int]) -> list[int]:
    """Return the number of rows of each table, of lines that also hold headings and messages.

    Each table gets all its rows if a third of the lines is left to messages; a table may use the
    lines that the other does not need.
    """
    room = max(0, lines - max(_LEAST_MESSAGES, lines // 3))
    shares = dict.fromkeys(range(len(wanted)), 0)
    for left, table in enumerate(sorted(shares, key=lambda table: wanted[table])):
        share = min(wanted[table], room // (len(wanted) - left) - 1)
        if share > 0:
            shares[table] = share
            room -= share + 1
    return list(shares.values())


def _part(
    what: str, which: str, headings: Sequence[str], rows: Sequence[Sequence[object]], count: int
) -> list[RenderableType]:
    """Return a table of the first rows, by name, so that rows keep their places."""
    if not count:
        return [_line(f"{len(rows) or 'no'} {what}", "dim")]
    shown = sorted(rows[:count], key=lambda row: str(row[0]))
    above = f"{what}: the {which} {count}" if count < len(rows) else ""
    return [_line(above, "dim"), fitted_table(headings, output.cells_of(shown))]


def _shortened(parts: Parts, today: str) -> Parts:
    """Shorten the time of a message: to the time of a message of today, else to the date."""
    seq, ts, route, type, payload = parts
    shown = ts[_DATE + 1 :][:_CLOCK] if ts.startswith(today) else ts[:_DATE]
    return seq, shown, route, type, payload


def _line(text: str, style: str) -> Text:
    return _cut(Text(output.visible(text), style))


def _cut(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
