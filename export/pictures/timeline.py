"""The time line: its data, and its picture as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from ...schema.message.times import format_ts
from .traffic import EVERYBODY, clock, day, fitted, fitted_name, lanes, plain_name, span, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...bus.heartbeats import Heartbeat
    from .traffic import Arrow, Traffic

    Point = tuple[float, float]

# A time axis that leaves pauses out: the places of moments, and its labels.

#: How wide a pause is drawn, in pixels.
PAUSE_WIDTH = 40.0

#: How far two labels are apart at least, in pixels.
_LABEL_APART = 70.0

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000

#: The steps between labels, in milliseconds, that people read well.
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)


@dataclass(frozen=True, slots=True)
class Label:
    """A label of the axis; `date` only where it differs from the date of the label before."""

    x: float
    clock: str
    date: str | None


class TimeAxis:
    """A scale from epoch milliseconds to pixels. Between pauses it is even.

    Args:
        first_ms, last_ms: its first and last moment.
        pauses: the pauses to leave out, from and to, in order.
        left, right: its place in the picture.
    """

    def __init__(
        self,
        first_ms: int,
        last_ms: int,
        pauses: Sequence[tuple[int, int]],
        left_x: float,
        right: float,
    ) -> None:
        self._pauses = pauses
        self._left = left_x
        drawn_ms = last_ms - first_ms - sum(end - start for start, end in pauses)
        room = right - left_x - PAUSE_WIDTH * len(pauses)
        self._px_per_ms = room / max(drawn_ms, 1)
        starts = [first_ms, *(end for _, end in pauses)]
        ends = [*(start for start, _ in pauses), last_ms]
        #: The stretches between pauses: from, to, and where the first moment stands.
        self._stretches: list[tuple[int, int, float]] = []
        x = left_x
        for start, end in zip(starts, ends, strict=True):
            self._stretches.append((start, end, x))
            x += (end - start) * self._px_per_ms + PAUSE_WIDTH

    def x(self, ts_ms: int) -> float:
        """Return the place of a moment; within a pause, the place of the pause's beginning."""
        for start, end, x in reversed(self._stretches):
            if ts_ms >= start:
                return x + (min(ts_ms, end) - start) * self._px_per_ms
        return self._left

    def pauses(self) -> list[tuple[float, str]]:
        """Return the place of each pause, and its true length."""
        return [(self.x(start), length(end - start)) for start, end in self._pauses]

    def labels(self) -> list[Label]:
        """Return the labels: at the end of pauses, and evenly between."""
        taken: list[int] = []
        for start, _, _ in self._stretches:
            self._take(taken, start)
        step = self._step()
        for start, end, _ in self._stretches:
            for moment in range(-(-start // step) * step, end + 1, step):
                self._take(taken, moment)
        seconds = step < _MINUTE
        labels, before = [], ""
        for moment in sorted(taken):
            date = day(moment)
            shown = clock(moment) if seconds else clock(moment)[:5]
            labels.append(Label(self.x(moment), shown, None if date == before else date))
            before = date
        return labels

    def _step(self) -> int:
        """Return the milliseconds between even labels: whole years where ages are shown."""
        least = _LABEL_APART / self._px_per_ms
        year = _STEPS[-1]
        return next((step for step in _STEPS if step >= least), math.ceil(least / year) * year)

    def _take(self, taken: list[int], moment: int) -> None:
        x = self.x(moment)
        if all(abs(x - self.x(other)) >= _LABEL_APART for other in taken):
            taken.append(moment)


def length(duration_ms: int) -> str:
    """Return a duration as people say it: `3 d`, `14 h`, `25 min`, `40 s`."""
    for unit_ms, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if duration_ms >= unit_ms:
            return f"{duration_ms / unit_ms:.0f} {unit}"
    return f"{duration_ms / _SECOND:.0f} s"


#: A pause is cut out when it is so many times as long as the shorter pauses are on average…
_TIMES_THE_REST = 10

#: …and would take at least this part of the axis; at most so many of them.
_PART_OF_AXIS, _MAX_PAUSES = 1 / 15, 12


@dataclass(frozen=True, slots=True)
class AgentPresence:
    """The time in which an agent left traces: messages that it sent, and its last heartbeat.

    Attributes:
        agent: its name.
        first_ms, last_ms: its first and last trace.
        stopped: whether that heartbeat said that it had stopped.
    """

    agent: str
    first_ms: int
    last_ms: int
    stopped: bool = False

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        first, last = format_ts(self.first_ms), format_ts(self.last_ms)
        return {"agent": self.agent, "first": first, "last": last, "stopped": self.stopped}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Messages on a time axis.

    Attributes:
        traffic: the messages, at least one.
        presences: the present agents, in order of appearance; mere recipients are left out.
        pauses: the pauses that the axis leaves out, from and to, in order.
    """

    traffic: Traffic
    presences: tuple[AgentPresence, ...]
    pauses: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, traffic: Traffic, beats: Iterable[Heartbeat] = ()) -> Timeline:
        """Return the time line of messages.

        Args:
            traffic: at least one message.
            beats: the last heartbeats of agents. One from before the first message is left out.
        """
        start = min(arrow.ts_ms for arrow in traffic.arrows)
        presences: dict[str, AgentPresence] = {}
        for arrow in traffic.arrows:
            _extend(presences, arrow.sender, arrow.ts_ms)
        for beat in beats:
            if beat.ts_ms >= start:
                _extend(presences, plain_name(beat.agent), beat.ts_ms, beat.status == "stopped")
        moments = [arrow.ts_ms for arrow in traffic.arrows]
        moments += [presence.last_ms for presence in presences.values()]
        return cls(traffic, tuple(presences.values()), tuple(pauses(moments)))

    @property
    def lanes(self) -> list[str | None]:
        """The agents in order of appearance, and None at the end for broadcasts."""
        there = [presence.agent for presence in self.presences]
        agents = list(dict.fromkeys([*self.traffic.agents, *there]))
        return lanes(agents, None in self.traffic.lanes)

    @property
    def first_ms(self) -> int:
        """When the axis begins."""
        return min(arrow.ts_ms for arrow in self.traffic.arrows)

    @property
    def last_ms(self) -> int:
        """When the axis ends."""
        ends = [presence.last_ms for presence in self.presences]
        return max([*ends, *(arrow.ts_ms for arrow in self.traffic.arrows)])

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        return {
            **self.traffic.record(),
            "presences": [presence.record() for presence in self.presences],
            "pauses": [{"from": format_ts(a), "to": format_ts(b)} for a, b in self.pauses],
        }


def pauses(moments: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pauses between moments that are far longer than the others, in order.

    The longest pause is compared with the shorter pauses, then the next, until a pause is not far
    longer; so a week that has three days of work keeps the pauses within a day.
    """
    gaps = sorted(pairwise(sorted(set(moments))), key=lambda gap: (gap[0] - gap[1], gap[0]))
    remaining = sum(end - start for start, end in gaps)
    long_gaps: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(gaps[:_MAX_PAUSES], 1):
        long = end - start
        rest = remaining - long
        shorter = len(gaps) - number
        is_far_longer = shorter and long * shorter > _TIMES_THE_REST * rest
        if not is_far_longer or long < _PART_OF_AXIS * remaining:
            break
        long_gaps.append((start, end))
        remaining = rest
    return sorted(long_gaps)


def _extend(
    presences: dict[str, AgentPresence], agent: str, ts_ms: int, stopped: bool = False
) -> None:
    """Add another trace of an agent."""
    before = presences.get(agent, AgentPresence(agent, ts_ms, ts_ms))
    first, last = min(before.first_ms, ts_ms), max(before.last_ms, ts_ms)
    presences[agent] = AgentPresence(agent, first, last, stopped and ts_ms == last)


# A small SVG writer: elements as text, and the style sheet of the time line.
#
# Plain SVG 1.1 with classes, so that browsers, GitHub and image viewers show the same. The dark
# colours stand in a media query at the end, which a viewer that knows none leaves out; the
# background is drawn, because a page may be dark where the viewer's preference is light.

#: The sizes of text, in pixels; the style sheet says the same.
TEXT, SMALL, TITLE = 12, 11, 15

#: How many agents have a colour of their own; then the colours repeat.
COLOURS = 8

#: The class of everybody's lane, which has no colour.
NO_COLOUR = "n"

_LIGHT = {
    "page": "#ffffff",
    "ink": "#1f2328",
    "quiet": "#59636e",
    "rule": "#d1d9e0",
    "band": "#f0f3f6",
    "agents": "#0969da #bc4c00 #1a7f37 #8250df #bf3989 #1b7c83 #9a6700 #cf222e",
}
_DARK = {
    "page": "#0d1117",
    "ink": "#f0f6fc",
    "quiet": "#9198a1",
    "rule": "#3d444d",
    "band": "#1a2029",
    "agents": "#58a6ff #f0883e #3fb950 #bc8cff #f778ba #39c5cf #e3b341 #ff7b72",
}

_FONTS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"

_SHAPES = f"""\
text {{ font-family: {_FONTS}; font-size: {TEXT}px; }}
.small {{ font-size: {SMALL}px; }}
.title {{ font-size: {TITLE}px; font-weight: 600; }}
.strong {{ font-weight: 600; }}
.middle {{ text-anchor: middle; }}
.end {{ text-anchor: end; }}
.halo {{ paint-order: stroke; stroke-width: 4px; stroke-linejoin: round; }}
.arrow {{ fill: none; stroke-width: 1.6px; }}
.reply {{ stroke-dasharray: 6 4; }}
.rule {{ stroke-width: 1px; }}
.lane {{ stroke-dasharray: 2 4; }}
.box {{ stroke-width: 1.6px; }}
.faint {{ opacity: 0.75; }}
.bar {{ opacity: 0.3; }}
"""


def element(name: str, content: str = "", **attributes: str | float) -> str:
    """Return an element. Attribute names end with `_` where Python wants the word itself."""
    head = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def text(x: float, y: float, content: str, style: str) -> str:
    """Return a line of text at the left, middle or right end of its base line."""
    return element("text", escape(content), x=x, y=y, class_=style)


def titled(title: str, parts: Iterable[str]) -> str:
    """Return elements as a group, with the text that shows when the pointer rests on it."""
    return element("g", element("title", escape(title)) + "".join(parts))


def line(start: Point, end: Point, style: str) -> str:
    """Return a straight line."""
    return element("path", d=f"M{_point(start)} L{_point(end)}", class_=style)


def arrowhead(tip: Point, direction: Point, style: str, size: float = 9) -> str:
    """Return a filled triangle that points in a direction, a vector of length 1."""
    (x, y), (dx, dy) = tip, direction
    back_x, back_y, half = x - dx * size, y - dy * size, size * 0.45
    corners = (
        tip,
        (back_x - dy * half, back_y + dx * half),
        (back_x + dy * half, back_y - dx * half),
    )
    return element("path", d=f"M{' L'.join(map(_point, corners))} Z", class_=style)


def box(x: float, y: float, wide: float, high: float, style: str, radius: float = 6) -> str:
    """Return a rectangle with round corners."""
    return element("rect", x=x, y=y, width=wide, height=high, rx=radius, class_=style)


def colour(lanes: list[str | None], name: str | None) -> str:
    """Return the class of an agent's colour: `c0` as line, `f0` as text and filling, and so on."""
    return NO_COLOUR if name is None else str(lanes.index(name) % COLOURS)


def heading(title: str, subtitle: str) -> list[str]:
    """Return the two lines at the top of a picture."""
    return [text(20, 30, title, "title ink"), text(20, 50, subtitle, "quiet")]


def document(wide: float, high: float, title: str, parts: Iterable[str]) -> str:
    """Return a whole SVG file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_value(wide)}" height="{_value(high)}"'
        f' viewBox="0 0 {_value(wide)} {_value(high)}" role="img">'
    )
    dark = f"@media (prefers-color-scheme: dark) {{\n{_colours(_DARK)}}}\n"
    style = element("style", f"\n{_SHAPES}{_colours(_LIGHT)}{dark}")
    page = element("rect", width=wide, height=high, class_="page")
    return "\n".join([head, element("title", escape(title)), style, page, *parts, "</svg>", ""])


def _colours(theme: dict[str, str]) -> str:
    rules = [
        f".page {{ fill: {theme['page']}; }}",
        f".halo {{ stroke: {theme['page']}; }}",
        f".box {{ fill: {theme['page']}; }}",
        f".ink {{ fill: {theme['ink']}; }}",
        f".quiet {{ fill: {theme['quiet']}; }}",
        f".band {{ fill: {theme['band']}; }}",
        f".rule {{ stroke: {theme['rule']}; fill: none; }}",
        f".c{NO_COLOUR} {{ stroke: {theme['quiet']}; }}",
        f".f{NO_COLOUR} {{ fill: {theme['quiet']}; }}",
    ]
    for number, shade in enumerate(theme["agents"].split()):
        rules.append(f".c{number} {{ stroke: {shade}; }} .f{number} {{ fill: {shade}; }}")
    return "".join(f"{rule}\n" for rule in rules)


def _point(point: Point) -> str:
    return f"{_value(point[0])} {_value(point[1])}"


def _value(value: str | float) -> str:
    """Return an attribute's text; a number to a tenth of a pixel, the same on every machine."""
    if isinstance(value, str):
        return escape(value)
    rounded = f"{value:.1f}".removesuffix(".0")
    return "0" if rounded == "-0" else rounded


# A time line in SVG: time runs to the right, a lane for each agent from its start to its stop.

#: How wide the picture is, and how wide an agent's name may be.
_WIDE, _MAX_NAME = 1200, 160

#: The left and right edge; the first lane, and how far apart lanes are.
_EDGE, _TOP, _LANE = 20, 104, 54

#: The bar of an agent's presence: its height, and its least length, so that one trace is visible.
_BAR, _MIN_BAR = 12, 12


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Return a drawing of messages as arrows between lanes, at the time of each.

    Args:
        timeline: the messages.
        title: what it shows.
    """
    lanes = timeline.lanes
    ys = {name: float(_TOP + _LANE * number) for number, name in enumerate(lanes)}
    left_x = _EDGE + max(_name_width(name) for name in lanes) + 24
    axis = TimeAxis(
        timeline.first_ms, timeline.last_ms, timeline.pauses, left_x, _WIDE - _EDGE - 20
    )
    foot = max(ys.values()) + 36
    subtitle = f"{timeline.traffic.extent}, {span(timeline.first_ms, timeline.last_ms)}"
    if timeline.pauses:
        subtitle += "; grey: left out, as nothing happened"
    head = heading(fitted(title, _WIDE - 40, TITLE, bold=True), subtitle)
    parts = [*head, *_pauses(axis, foot), *_time_labels(axis, foot)]
    for name in lanes:
        parts += _lane(name, lanes, ys[name], left_x)
    parts += [_presence(presence, lanes, ys, axis) for presence in timeline.presences]
    parts += [_message(arrow, lanes, ys, axis) for arrow in timeline.traffic.arrows]
    return document(_WIDE, foot + 50, title, parts)


def _shown(name: str | None) -> str:
    return fitted_name(name, _MAX_NAME, TEXT)


def _name_width(name: str | None) -> float:
    return width(_shown(name), TEXT, bold=True)


def _lane(name: str | None, lanes: list[str | None], y: float, left_x: float) -> list[str]:
    shade = colour(lanes, name)
    label = text(left_x - 20, y + 4, _shown(name), f"strong end f{shade}")
    return [
        line((left_x - 8, y), (_WIDE - _EDGE, y), "rule lane"),
        titled(name or EVERYBODY, [label]),
    ]


def _presence(
    presence: AgentPresence, lanes: list[str | None], ys: dict[str | None, float], axis: TimeAxis
) -> str:
    """Return the bar of an agent, with a mark at its end when it stopped in good order."""
    shade, y = colour(lanes, presence.agent), ys[presence.agent]
    start, end = axis.x(presence.first_ms), axis.x(presence.last_ms)
    short = max(0.0, _MIN_BAR - (end - start)) / 2
    start, end = start - short, end + short
    parts = [box(start, y - _BAR / 2, end - start, _BAR, f"bar f{shade}", _BAR / 2)]
    tooltip = f"{presence.agent}: {format_ts(presence.first_ms)} to {format_ts(presence.last_ms)}"
    if presence.stopped:
        parts.append(line((end, y - _BAR), (end, y + _BAR), f"arrow c{shade}"))
        tooltip += ", stopped"
    return titled(tooltip, parts)


def _message(
    arrow: Arrow, lanes: list[str | None], ys: dict[str | None, float], axis: TimeAxis
) -> str:
    """Return an arrow from lane to lane; a message to the agent itself is a ring."""
    shade, x = colour(lanes, arrow.sender), axis.x(arrow.ts_ms)
    start, end = ys[arrow.sender], ys[arrow.recipient]
    if arrow.sender == arrow.recipient:
        ring = element("circle", cx=x, cy=start, r=5, class_=f"arrow faint c{shade}")
        return titled(arrow.story, [ring])
    way = 1 if end > start else -1
    style = f"arrow faint c{shade}{' reply' if arrow.is_reply else ''}"
    return titled(
        arrow.story,
        [
            line((x, start), (x, end - way * 7), style),
            element("circle", cx=x, cy=start, r=2.5, class_=f"f{shade}"),
            arrowhead((x, end), (0, way), f"f{shade}", 8),
        ],
    )


def _pauses(axis: TimeAxis, foot: float) -> list[str]:
    """Return a grey band for each pause, with its true length."""
    parts = []
    for x, length in axis.pauses():
        band = element(
            "rect", x=x + 8, y=72, width=PAUSE_WIDTH - 16, height=foot - 72, class_="band"
        )
        label = text(x + PAUSE_WIDTH / 2, 84, length, "small middle quiet halo")
        parts.append(titled(f"nothing for {length}", [band, label]))
    return parts


def _time_labels(axis: TimeAxis, foot: float) -> list[str]:
    parts = []
    for label in axis.labels():
        parts.append(line((label.x, foot - 4), (label.x, foot + 4), "rule"))
        parts.append(text(label.x, foot + 18, label.clock, "small middle quiet"))
        if label.date is not None:
            parts.append(text(label.x, foot + 33, label.date, "small strong middle quiet"))
    return [line((_EDGE, foot), (_WIDE - _EDGE, foot), "rule"), *parts]
