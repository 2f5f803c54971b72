"""A snapshot of a bus on a terminal: three parts, which share its lines."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ...schema.message.times import format_ts
from ..show.terminal import message_line
from .screen import cut, line, part, shares
from .sight import AGENT_HEADINGS, QUEUE_HEADINGS, Sight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..show.text import Parts

#: The lines that are always there: the first, the last, and an empty one above each part.
_FRAME_LINES = 5

#: The characters of a timestamp that are its date, and those after it that are hours to seconds.
_DATE, _CLOCK = len("2026-01-10"), len("14:00:00")


def picture(sight: Sight, height: int) -> RenderableType:
    """Return the picture for a terminal of so many lines; never more lines than it has."""
    agents = [agent.row() for agent in sight.agents]
    queues = sight.queue_rows()
    rows = shares(height - _FRAME_LINES, [len(agents), len(queues)])
    parts: list[RenderableType] = [line(sight.headline(), "bold")]
    parts += part("agents", "latest", AGENT_HEADINGS, agents, rows[0])
    parts += part("queues", "first", QUEUE_HEADINGS, queues, rows[1])
    used = 3 + sum(2 + count if count else 1 for count in rows)
    left = max(0, height - used)
    newest = sight.messages[-left:] if left else []
    today = format_ts(sight.at_ms)[:_DATE]
    parts += [Text(""), *(cut(message_line(_shortened(shown, today))) for _, shown in newest)]
    parts += [line("q ends", "dim")]
    return Group(*parts[: max(1, height)])


def _shortened(parts: Parts, today: str) -> Parts:
    """Shorten the time of a message: to the time of a message of today, else to the date."""
    seq, ts, route, type, payload = parts
    shown = ts[_DATE + 1 :][:_CLOCK] if ts.startswith(today) else ts[:_DATE]
    return seq, shown, route, type, payload
