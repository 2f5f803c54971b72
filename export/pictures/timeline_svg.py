"""A time line in SVG: time runs to the right, a lane for each agent from its start to its stop."""

from __future__ import annotations

from ...schema.message.times import format_ts
from . import svg
from .time_axis import PAUSE_WIDTH, TimeAxis
from .words import EVERYBODY, fitted, fitted_name, span, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .timeline import Presence, Timeline
    from .traffic import Arrow

#: How wide the picture is, and how wide an agent's name may be.
_WIDE, _MAX_NAME = 1200, 160

#: The left and right edge; the first lane, and how far apart lanes are.
_EDGE, _TOP, _LANE = 20, 104, 54

#: The bar of an agent's presence: how high, and how long at least, so that one trace is seen.
_BAR, _MIN_BAR = 12, 12


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Return a drawing of messages as arrows between lanes, at the time of each.

    Args:
        timeline: the messages.
        title: what it shows.
    """
    lanes = timeline.lanes
    ys = {name: float(_TOP + _LANE * number) for number, name in enumerate(lanes)}
    left = _EDGE + max(_name_width(name) for name in lanes) + 24
    axis = TimeAxis(timeline.first_ms, timeline.last_ms, timeline.pauses, left, _WIDE - _EDGE - 20)
    foot = max(ys.values()) + 36
    subtitle = f"{timeline.traffic.extent}, {span(timeline.first_ms, timeline.last_ms)}"
    if timeline.pauses:
        subtitle += "; grey: left out, as nothing happened"
    head = svg.heading(fitted(title, _WIDE - 40, svg.TITLE, bold=True), subtitle)
    parts = [*head, *_pauses(axis, foot), *_time_labels(axis, foot)]
    for name in lanes:
        parts += _lane(name, lanes, ys[name], left)
    parts += [_presence(presence, lanes, ys, axis) for presence in timeline.presences]
    parts += [_message(arrow, lanes, ys, axis) for arrow in timeline.traffic.arrows]
    return svg.document(_WIDE, foot + 50, title, parts)


def _shown(name: str | None) -> str:
    return fitted_name(name, _MAX_NAME, svg.TEXT)


def _name_width(name: str | None) -> float:
    return width(_shown(name), svg.TEXT, bold=True)


def _lane(name: str | None, lanes: list[str | None], y: float, left: float) -> list[str]:
    shade = svg.colour(lanes, name)
    label = svg.text(left - 20, y + 4, _shown(name), f"strong end f{shade}")
    return [
        svg.line((left - 8, y), (_WIDE - _EDGE, y), "rule lane"),
        svg.titled(name or EVERYBODY, [label]),
    ]


def _presence(
    presence: Presence, lanes: list[str | None], ys: dict[str | None, float], axis: TimeAxis
) -> str:
    """Return the bar of an agent, with a mark at its end when it stopped in good order."""
    shade, y = svg.colour(lanes, presence.agent), ys[presence.agent]
    start, end = axis.x(presence.first_ms), axis.x(presence.last_ms)
    short = max(0.0, _MIN_BAR - (end - start)) / 2
    start, end = start - short, end + short
    parts = [svg.box(start, y - _BAR / 2, end - start, _BAR, f"bar f{shade}", _BAR / 2)]
    told = f"{presence.agent}: {format_ts(presence.first_ms)} to {format_ts(presence.last_ms)}"
    if presence.stopped:
        parts.append(svg.line((end, y - _BAR), (end, y + _BAR), f"arrow c{shade}"))
        told += ", stopped"
    return svg.titled(told, parts)


def _message(
    arrow: Arrow, lanes: list[str | None], ys: dict[str | None, float], axis: TimeAxis
) -> str:
    """Return an arrow from lane to lane; a message to the agent itself is a ring."""
    shade, x = svg.colour(lanes, arrow.sender), axis.x(arrow.ts_ms)
    start, end = ys[arrow.sender], ys[arrow.recipient]
    if arrow.sender == arrow.recipient:
        ring = svg.element("circle", cx=x, cy=start, r=5, class_=f"arrow faint c{shade}")
        return svg.titled(arrow.story, [ring])
    way = 1 if end > start else -1
    style = f"arrow faint c{shade}{' reply' if arrow.is_reply else ''}"
    return svg.titled(
        arrow.story,
        [
            svg.line((x, start), (x, end - way * 7), style),
            svg.element("circle", cx=x, cy=start, r=2.5, class_=f"f{shade}"),
            svg.arrowhead((x, end), (0, way), f"f{shade}", 8),
        ],
    )


def _pauses(axis: TimeAxis, foot: float) -> list[str]:
    """Return a grey band for each pause, with its true length."""
    parts = []
    for x, length in axis.pauses():
        band = svg.element(
            "rect", x=x + 8, y=72, width=PAUSE_WIDTH - 16, height=foot - 72, class_="band"
        )
        told = svg.text(x + PAUSE_WIDTH / 2, 84, length, "small middle quiet halo")
        parts.append(svg.titled(f"nothing for {length}", [band, told]))
    return parts


def _time_labels(axis: TimeAxis, foot: float) -> list[str]:
    parts = []
    for label in axis.labels():
        parts.append(svg.line((label.x, foot - 4), (label.x, foot + 4), "rule"))
        parts.append(svg.text(label.x, foot + 18, label.clock, "small middle quiet"))
        if label.date is not None:
            parts.append(svg.text(label.x, foot + 33, label.date, "small strong middle quiet"))
    return [svg.line((_EDGE, foot), (_WIDE - _EDGE, foot), "rule"), *parts]
