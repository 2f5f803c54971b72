"""A small SVG writer: elements as text, and the style sheet of the time line.

Plain SVG 1.1 with classes, so that browsers, GitHub and image viewers show the same. The dark
colours stand in a media query at the end, which a viewer that knows none leaves out; the
background is drawn, because a page may be dark where the viewer's preference is light.
"""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Point = tuple[float, float]

#: The sizes of text, in pixels; the style sheet says the same.
TEXT, SMALL, TITLE = 12, 11, 15

#: How many agents have a colour of their own; the next ones begin again.
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
    """Return elements as one, with what shows when the pointer rests on it."""
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
