"""The links between agents as a ring in SVG: the more messages, the stronger the line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import svg
from .words import EVERYBODY, fitted, fitted_name, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .links import Link, Links
    from .svg import Point

#: The box of an agent: its height, how wide a name may be, and the room between two on the ring.
_HIGH, _MAX_NAME, _APART = 46, 150, 64

#: How far the line of what an agent sends to itself reaches out of its box.
_LOOP = 46

#: The ring is wider than high, as names are.
_FLATTENING = 0.62

#: How far a line keeps to its left, in pixels, so that two opposite ones run side by side; and how
#: far it bends towards the middle, away from the boxes between: as a part of the way there, and at
#: most as a part of its own length.
_ASIDE, _INWARD, _MAX_BEND = 9, 0.3, 0.25

#: The widths of the weakest and the strongest line.
_THIN, _THICK = 1.4, 5.0

#: Where on a line its count stands: nearer to the sender, so that counts don't meet in the middle.
_COUNT_AT = 0.4

#: How finely a line is searched for the edges of boxes.
_STEPS = 100


@dataclass(frozen=True, slots=True)
class _Ring:
    """The layout: the middle of the ring, and the place and size of each box."""

    middle: Point
    places: dict[str | None, Point]
    sizes: dict[str | None, Point]

    @classmethod
    def of(cls, links: Links) -> _Ring:
        """Arrange the boxes around a ring; two of them side by side."""
        lanes = links.lanes
        sizes = {name: _size(links, name) for name in lanes}
        widest = max(wide for wide, _ in sizes.values())
        radius = 0.0
        if len(lanes) > 1:
            radius = max(210.0, (widest + _APART) / (2 * math.sin(math.pi / len(lanes))))
        high = radius * _FLATTENING if len(lanes) > 2 else 30
        above = 110 + (_LOOP if _has_loop(links) else 0)
        middle = radius + widest / 2 + 30, high + above
        first = -math.pi / 2 if len(lanes) > 2 else math.pi
        places = {}
        for number, name in enumerate(lanes):
            angle = first + math.tau * number / len(lanes)
            places[name] = (
                middle[0] + radius * math.cos(angle),
                middle[1] + high * math.sin(angle),
            )
        return cls(middle, places, sizes)


def links_svg(links: Links, title: str) -> str:
    """Return a drawing of at least one link. Lines have the colours of the senders."""
    ring = _Ring.of(links)
    most = max(link.count for link in links.links)
    head, head_width = svg.heading(fitted(title, 700, svg.TITLE, bold=True), links.extent)
    lines, counts = [], []
    for link in links.links:
        line, count = _link(link, ring, most, svg.colour(links.lanes, link.sender))
        lines.append(line)
        counts.append(count)
    agents = [_agent(links, name, ring) for name in links.lanes]
    low = max(y for _, y in ring.places.values()) + (_LOOP if _has_loop(links) else 0)
    # The counts above all lines, so that none is crossed out.
    parts = [*head, *lines, *counts, *agents]
    return svg.document(max(ring.middle[0] * 2, head_width), low + 70, title, parts)


def _shown(name: str | None) -> str:
    return fitted_name(name, _MAX_NAME - 28, svg.TEXT)


def _sums(links: Links, name: str | None) -> str:
    if name is None:
        return f"got {links.received(name):,}"
    return f"sent {links.sent(name):,}, got {links.received(name):,}"


def _size(links: Links, name: str | None) -> Point:
    texts = (width(_shown(name), svg.TEXT, bold=True), width(_sums(links, name), svg.SMALL))
    return max(texts) + 28, _HIGH


def _agent(links: Links, name: str | None, ring: _Ring) -> str:
    (x, y), (wide, high) = ring.places[name], ring.sizes[name]
    shade, corner = svg.colour(links.lanes, name), high / 2 if name is None else 8
    return svg.titled(
        f"{name or EVERYBODY}: {_sums(links, name)}",
        [
            svg.box(x - wide / 2, y - high / 2, wide, high, f"box c{shade}", corner),
            svg.text(x, y - 3, _shown(name), f"strong middle f{shade}"),
            svg.text(x, y + 14, _sums(links, name), "small middle quiet"),
        ],
    )


def _link(link: Link, ring: _Ring, most: int, shade: str) -> tuple[str, str]:
    """Return a line with its arrowhead, and its count, which goes on top of all lines."""
    thick = _THIN + (_THICK - _THIN) * math.sqrt(link.count / most)
    points = _loop(link, ring) if link.sender == link.recipient else _bent(link, ring)
    tip, before = points[-1], points[max(-len(points), -6)]
    length = math.dist(before, tip) or 1.0
    way = ((tip[0] - before[0]) / length, (tip[1] - before[1]) / length)
    size = 7 + thick * 1.6
    body = [point for point in points if math.dist(point, tip) > size * 0.8]
    x, y = points[int(len(points) * _COUNT_AT)]
    title = f"{link.sender} → {link.recipient or EVERYBODY}: {link.count:,}"
    line = svg.polyline(body, f"arrow faint c{shade}", thick)
    count = svg.text(x, y + 4, f"{link.count:,}", f"strong middle halo f{shade}")
    head = svg.arrowhead(tip, way, f"f{shade}", size)
    return svg.titled(title, [line, head]), svg.titled(title, [count])


def _bent(link: Link, ring: _Ring) -> list[Point]:
    """Return the points of a line from the edge of one box to that of another."""
    (x1, y1), (x2, y2) = ring.places[link.sender], ring.places[link.recipient]
    length = math.hypot(x2 - x1, y2 - y1)
    left_x, left_y = (y2 - y1) / length * _ASIDE, (x1 - x2) / length * _ASIDE
    start, end = (x1 + left_x, y1 + left_y), (x2 + left_x, y2 + left_y)
    half = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    pull = min(_INWARD, _MAX_BEND * length / max(math.dist(half, ring.middle), 1.0))
    bend = (
        half[0] + pull * (ring.middle[0] - half[0]),
        half[1] + pull * (ring.middle[1] - half[1]),
    )
    steps = (step / _STEPS for step in range(_STEPS + 1))
    points = [_on_curve((start, bend, bend, end), step) for step in steps]
    boxes = [(ring.places[name], ring.sizes[name]) for name in (link.sender, link.recipient)]
    return [p for p in points if not any(_within(p, *box) for box in boxes)] or points


def _has_loop(links: Links) -> bool:
    return any(link.sender == link.recipient for link in links.links)


def _loop(link: Link, ring: _Ring) -> list[Point]:
    """Return the points of an agent's line to itself, on the outside of the ring."""
    x, y = ring.places[link.sender]
    out = -1 if y <= ring.middle[1] else 1
    edge, far = y + out * (_HIGH / 2 + 3), y + out * (_HIGH / 2 + _LOOP * 4 / 3)
    corners = ((x - 24, edge), (x - 44, far), (x + 44, far), (x + 24, edge))
    return [_on_curve(corners, step / _STEPS) for step in range(_STEPS + 1)]


def _on_curve(corners: tuple[Point, Point, Point, Point], part: float) -> Point:
    """Return a point of a Bézier curve."""
    rest = 1 - part
    weights = (rest**3, 3 * rest * rest * part, 3 * rest * part * part, part**3)
    x, y = (
        sum(weight * corner[axis] for weight, corner in zip(weights, corners, strict=True))
        for axis in (0, 1)
    )
    return x, y


def _within(point: Point, place: Point, size: Point) -> bool:
    """Whether a point lies in a box, or just outside of it."""
    return all(abs(point[axis] - place[axis]) < size[axis] / 2 + 3 for axis in (0, 1))
