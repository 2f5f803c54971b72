"""Text for pictures: made plain, cut, and measured without a font."""

from __future__ import annotations

import unicodedata

from ...schema.message.times import format_ts

#: The name of the lane of broadcasts.
EVERYBODY = "everybody"

#: The width of a character as a part of the font's size, for the sans-serif fonts that people
#: have: measured on Helvetica's metrics, which most of them follow.
_NARROW, _LOWER, _UPPER, _BROAD, _FULL = 0.30, 0.54, 0.68, 0.88, 1.0
_NARROW_CHARS = frozenset("iljtfrI.,:;'`|!()[]{}/\\-\" ·")
_BROAD_CHARS = frozenset("mwMW@%…—→")

#: Some fonts, Verdana and DejaVu among them, run wider than Helvetica: room for half of that.
_ALLOWANCE = 1.08

#: Bold letters are wider, by about so much.
_BOLD = 1.07

#: Joiners that are invisible, but without which emoji and some scripts fall apart.
_JOINERS = "\u200c\u200d"


def plain(text: str) -> str:
    r"""Return text as one line: runs of spaces and newlines as one space, `\x1b` for ESC."""
    joined = " ".join(text.split())
    if joined.isprintable():
        return joined
    return "".join(
        char if char.isprintable() or char in _JOINERS else _escaped(char) for char in joined
    )


def plain_name(name: str) -> str:
    """Return an agent's name in the same way; one of spaces alone in quotes."""
    return plain(name) or ascii(name)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def cut(text: str, chars: int) -> str:
    """Return at most so many characters of a text, the last one an ellipsis where it was cut."""
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def cut_name(name: str | None, chars: int) -> str:
    """Return the name of a lane in at most so many characters.

    It is cut in the middle: names that begin alike often end in a number that tells them apart.
    """
    whole = name or EVERYBODY
    tail = (chars - 1) // 2
    return whole if len(whole) <= chars else f"{whole[: chars - 1 - tail]}…{whole[-tail:]}"


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return about how wide a text is in a sans-serif font of this size, rather too much."""
    ems = sum(map(_em, text))
    return ems * size * _ALLOWANCE * (_BOLD if bold else 1)


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return the beginning of a text that has room, with an ellipsis at its end if it was cut."""
    if width(text, size, bold=bold) <= room:
        return text
    return text[: _fitting(text, room - width("…", size, bold=bold), size, bold)].rstrip() + "…"


def fitted_name(name: str | None, room: float, size: float) -> str:
    """Return the name of a lane, cut in the middle to fit in bold letters."""
    shown = name or EVERYBODY
    chars = len(shown)
    while width(shown, size, bold=True) > room:
        chars -= 1
        shown = cut_name(name, chars)
    return shown


def _fitting(text: str, room: float, size: float, bold: bool) -> int:
    """Return how many characters of a text have room."""
    for count, char in enumerate(text):
        room -= width(char, size, bold=bold)
        if room < 0:
            return count
    return len(text)


def counted(number: int, what: str) -> str:
    """Return `1 message` or `2,000 messages`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def day(ts_ms: int) -> str:
    """Return the date of an epoch millisecond, in UTC."""
    return format_ts(ts_ms)[:10]


def clock(ts_ms: int) -> str:
    """Return the time of day of an epoch millisecond, in UTC, to the second."""
    return format_ts(ts_ms)[11:19]


def span(first_ms: int, last_ms: int) -> str:
    """Return a period as text, in UTC, to the minute."""
    first, last = f"{day(first_ms)} {clock(first_ms)[:5]}", f"{day(last_ms)} {clock(last_ms)[:5]}"
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last.removeprefix(day(first_ms)).strip()} UTC"


def _em(char: str) -> float:
    if char in _NARROW_CHARS:
        return _NARROW
    if char in _BROAD_CHARS:
        return _BROAD
    if char.isascii():
        return _UPPER if char.isupper() else _LOWER
    if unicodedata.east_asian_width(char) in "WF":
        return _FULL
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return _UPPER
