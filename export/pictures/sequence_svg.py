"""A conversation as a sequence diagram in SVG: time runs down, a line for each agent."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from . import svg
from .words import EVERYBODY, clock, day, fitted, fitted_name, span, two_lines, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .traffic import Arrow, Traffic

#: Where the boxes with the names begin.
_TOP = 74

#: The left edge, and the column of times to the left of all lanes.
_EDGE, _TIMES = 20, 62

#: How high things are: a message without text, a line of text, a line that tells the date.
_ROW, _LINE, _DATE_ROW = 40, 16, 30

#: Between two neighbours: room for what they say to each other, within bounds. Where there are
#: many, what is above the lower one shrinks, so that all gaps together take no more than this.
_MIN_GAP, _MAX_GAP, _ALL_GAPS = 180, 420, 1200

#: The box of an agent's name: its height, and how wide a name may be.
_BOX, _MAX_NAME = 28, 150

#: What an agent sends to itself: how far its arrow goes to the right, and room for the text.
_LOOP, _LOOP_ROOM = 34, 200

#: From this many rows on the names stand at the foot too.
_LONG = 8


@dataclass(frozen=True, slots=True)
class _Row:
    """A message, its first words on one line or two, and where its arrow is drawn.

    Attributes:
        arrow: the message.
        lines: the words.
        y: the height of the arrow.
        date: told by a line above the message; None where it has been told.
    """

    arrow: Arrow
    lines: list[str]
    y: float
    date: str | None

    @property
    def top(self) -> float:
        """The upper edge of the row."""
        return self.y - _ROW - _LINE * len(self.lines)


def sequence_svg(traffic: Traffic, title: str) -> str:
    """Return a drawing of messages as arrows between agents, replies dashed.

    Args:
        traffic: at least one message.
        title: what it shows.
    """
    arrows, lanes = traffic.arrows, traffic.lanes
    subtitle = f"{traffic.extent}, {span(arrows[0].ts_ms, arrows[-1].ts_ms)}"
    xs = _positions(arrows, lanes)
    lanes_end = max(xs.values()) + _right_of_last(arrows, lanes)
    rows, bottom = _rows(arrows, xs, top=_TOP + _BOX)
    names = _names(lanes, xs, _TOP)
    if len(rows) >= _LONG:
        names += _names(lanes, xs, bottom)
        bottom += _BOX
    head, head_width = svg.heading(fitted(title, 700, svg.TITLE, bold=True), subtitle)
    wide = max(lanes_end + _EDGE, head_width, 420)
    parts = [*head, *_lifelines(lanes, xs, _TOP + _BOX, bottom)]
    for row in rows:
        if row.date is not None:
            parts += _date_line(row, wide)
        parts.append(_message(row, lanes, xs))
    return svg.document(wide, bottom + 44, title, [*parts, *names, *_legend(bottom + 26)])


def _positions(arrows: tuple[Arrow, ...], lanes: list[str | None]) -> dict[str | None, float]:
    """Return the places of the lanes: as far apart as their messages need."""
    gaps = [0.0] * len(lanes)  # what each needs to its right, above what all have
    for arrow in arrows:
        left, right = sorted((lanes.index(arrow.sender), lanes.index(arrow.recipient)))
        if left == right:
            left, right, need = left, left + 1, float(_LOOP + _LOOP_ROOM)
        else:
            need = min((_label_width(arrow) + 36) / (right - left), _MAX_GAP)
        for gap in range(left, right):
            gaps[gap] = max(gaps[gap], need - _MIN_GAP)
    spare = max(_ALL_GAPS - _MIN_GAP * (len(lanes) - 1), 0)
    shrink = min(1.0, spare / max(sum(gaps[:-1]), 1.0))
    x = _EDGE + _TIMES + _MAX_NAME / 2
    positions: dict[str | None, float] = {}
    for name, gap_above in zip(lanes, gaps, strict=True):
        positions[name] = x
        x += _MIN_GAP + gap_above * shrink
    return positions


def _right_of_last(arrows: tuple[Arrow, ...], lanes: list[str | None]) -> float:
    """Return the room to the right of the last lane."""
    is_loop = any(arrow.sender == arrow.recipient == lanes[-1] for arrow in arrows)
    return _LOOP + _LOOP_ROOM if is_loop else _MAX_NAME / 2


def _label_width(arrow: Arrow) -> float:
    head = width(f"{arrow.type}  #{arrow.seq}", svg.TEXT, bold=True)
    return max(head, width(arrow.text, svg.TEXT))


def _rows(
    arrows: tuple[Arrow, ...], xs: dict[str | None, float], top: float
) -> tuple[list[_Row], float]:
    """Return the messages with their heights, and the end of the last one."""
    rows: list[_Row] = []
    y, today = top + 8, None
    for arrow in arrows:
        date = day(arrow.ts_ms)
        lines = two_lines(arrow.text, _room(arrow, xs), svg.TEXT)
        y += _ROW + _LINE * len(lines) + (_DATE_ROW if date != today else 0)
        rows.append(_Row(arrow, lines, y, date if date != today else None))
        today = date
    return rows, y + 24


def _room(arrow: Arrow, xs: dict[str | None, float]) -> float:
    """Return the room for the text at an arrow."""
    across = abs(xs[arrow.recipient] - xs[arrow.sender])
    return min(across, _MAX_GAP) - 24 if across else _LOOP_ROOM


def _names(lanes: list[str | None], xs: dict[str | None, float], y: float) -> list[str]:
    """Return the boxes with the names of the lanes."""
    parts = []
    for name in lanes:
        shown = fitted_name(name, _MAX_NAME - 28, svg.TEXT)
        wide = width(shown, svg.TEXT, bold=True) + 28
        shade = svg.colour(lanes, name)
        round_ends = _BOX / 2 if name is None else 6
        parts.append(
            svg.titled(
                name or EVERYBODY,
                [
                    svg.box(xs[name] - wide / 2, y, wide, _BOX, f"box c{shade}", round_ends),
                    svg.text(xs[name], y + 18, shown, f"strong middle f{shade}"),
                ],
            )
        )
    return parts


def _lifelines(
    lanes: list[str | None], xs: dict[str | None, float], top: float, bottom: float
) -> list[str]:
    return [
        svg.line((xs[name], top), (xs[name], bottom), "rule lane" if name is None else "rule")
        for name in lanes
    ]


def _date_line(row: _Row, wide: float) -> list[str]:
    y = row.top - 4
    return [
        svg.line((_EDGE, y), (wide - _EDGE, y), "rule lane"),
        svg.text(_EDGE, y + 4, f"{row.date}", "small strong quiet halo"),
    ]


def _message(row: _Row, lanes: list[str | None], xs: dict[str | None, float]) -> str:
    arrow, y = row.arrow, row.y
    shade = svg.colour(lanes, arrow.sender)
    style = f"arrow c{shade}{' reply' if arrow.is_reply else ''}"
    start, end = xs[arrow.sender], xs[arrow.recipient]
    parts = [svg.text(_EDGE, y + 4, clock(arrow.ts_ms), "small quiet")]
    if arrow.sender == arrow.recipient:
        parts += _loop(start, y, style, shade)
        parts += _label(row, start + _LOOP + 10, y - 2, _room(arrow, xs), f"f{shade}", "halo")
    else:
        way = 1 if end > start else -1
        parts.append(svg.line((start, y), (end - way * 8, y), style))
        parts.append(svg.arrowhead((end - way, y), (way, 0), f"f{shade}"))
        middle = (start + end) / 2
        parts += _label(row, middle, y - 8, _room(arrow, xs), f"f{shade}", "halo middle")
    return svg.titled(arrow.story, parts)


def _loop(x: float, y: float, style: str, shade: str) -> list[str]:
    """Return the arrow of a message to the agent itself."""
    path = f"M{x:.1f} {y - 18:.1f} h{_LOOP - 8} q8 0 8 8 v2 q0 8 -8 8 H{x + 8:.1f}"
    return [
        svg.element("path", d=path, class_=style),
        svg.arrowhead((x + 1, y), (-1, 0), f"f{shade}"),
    ]


def _label(row: _Row, x: float, y: float, room: float, shade: str, style: str) -> list[str]:
    """Return the type and seq of a message, and below them its first words, which end at y."""
    arrow, seq = row.arrow, f"#{row.arrow.seq}"
    kind = fitted(arrow.type, room - width(f"  {seq}", svg.SMALL), svg.TEXT, bold=True)
    head = escape(kind) + svg.element("tspan", seq, class_="small light quiet", dx=6)
    y -= _LINE * len(row.lines)
    parts = [svg.element("text", head, x=x, y=y, class_=f"strong {style} {shade}")]
    for number, words in enumerate(row.lines, 1):
        parts.append(svg.text(x, y + _LINE * number, words, f"ink {style}"))
    return parts


def _legend(y: float) -> list[str]:
    """Return the legend of the two kinds of lines."""
    parts = []
    for x, style, meaning in ((_EDGE, "arrow cn", "message"), (120, "arrow cn reply", "reply")):
        parts.append(svg.line((x, y), (x + 24, y), style))
        parts.append(svg.arrowhead((x + 32, y), (1, 0), "fn"))
        parts.append(svg.text(x + 38, y + 4, meaning, "small quiet"))
    return parts
