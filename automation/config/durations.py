"""Forms of values in a configuration: durations, sizes, rates, times, parts of requests.

A value that has no such form raises a ValueError that names it and the form to write.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from .snapshot import Window
from .webhooks import PartOf, Rate

#: The seconds of each unit of a duration.
_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 7 * 86_400.0,
}

#: The named intervals, in seconds.
_INTERVALS = {
    "hourly": 3_600.0,
    "daily": 86_400.0,
    "weekly": 7 * 86_400.0,
    "monthly": 30 * 86_400.0,
}

_PART = r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w)"
_DURATION = re.compile(rf"(?:{_PART})+")

#: The longest duration that is taken, in seconds: a hundred years.
_MAX_S = 36_525 * 86_400.0

_SIZE = re.compile(r"(\d+)\s*(B|KB|MB|GB|KIB|MIB|GIB)?", re.IGNORECASE)
_RATE = re.compile(r"(\d{1,7})/(s|m|h)")
_PART_OF = re.compile(r"header:([A-Za-z0-9!#$%&'*+.^_`|~-]+)|body:(\S+)")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_POINT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)", re.IGNORECASE
)

_DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def duration_s(text: str) -> float:
    """Return the seconds of a positive duration such as ``90s``, ``1h30m`` or ``30d``."""
    seconds = -1.0
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    if not 0 < seconds <= _MAX_S:
        raise ValueError(f"{text!r} is not a positive duration; write one such as 90s, 5m or 1h30m")
    return seconds


def duration_or_zero_s(text: str) -> float:
    """Return the seconds of a duration, which may be ``0`` or ``0s``."""
    return 0.0 if re.fullmatch(r"0(ns|us|µs|ms|s|m|h|d|w)?", text) else duration_s(text)


def interval_s(text: str) -> float:
    """Return the seconds of an interval: a duration, or hourly, daily, weekly or monthly."""
    if text in _INTERVALS:
        return _INTERVALS[text]
    try:
        return duration_s(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an interval; write a positive duration such as 5m, 2h or 3d,"
            f" or {', '.join(_INTERVALS)}"
        ) from None


def size_bytes(text: str) -> int:
    """Return the bytes of a positive size such as ``1MB``; a KB has 1,024."""
    if found := _SIZE.fullmatch(text):
        exponent = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3}[(found[2] or "").upper()[:1]]
        size: int = int(found[1]) * 1024**exponent
        if 0 < size < 1 << 63:
            return size
    raise ValueError(f"{text!r} is not a positive size; write bytes, or one such as 64KB or 1MB")


def rate_of(text: str) -> Rate:
    """Return the rate of ``10/s``, ``60/m`` or ``1000/h``."""
    if (found := _RATE.fullmatch(text)) and int(found[1]):
        return Rate(int(found[1]), _UNITS[found[2]])
    raise ValueError(f"{text!r} is no rate; write one such as 10/s, 60/m or 1000/h")


def part_of(text: str) -> PartOf:
    """Return the part of a request that ``header:NAME`` or ``body:FIELD`` names."""
    if found := _PART_OF.fullmatch(text):
        return PartOf("header", found[1]) if found[1] else PartOf("body", found[2])
    raise ValueError(f"{text!r} is no part of a request; write header:NAME or body:FIELD")


def window(start: str, end: str) -> Window:
    """Return the window between two times of day, of which the second may be of the next day."""
    found = Window(_minute(start), _minute(end))
    if found.start_minute == found.end_minute:
        raise ValueError(f"the window begins and ends at {start}; write two different times")
    return found


def window_of(text: str) -> Window:
    """Return the window that ``08:00-22:00`` names; ``22:00-06:00`` wraps over midnight."""
    start, dash, end = text.partition("-")
    if not dash:
        raise ValueError(f"{text!r} is not a window; write one such as 08:00-22:00")
    return window(start.strip(), end.strip())


def weekday(given: str) -> int:
    """Return the weekday of a name (``saturday``, ``sat``) or a number, as cron counts: 0 Sunday.

    The number 7 is Sunday, too.
    """
    if given in {"0", "1", "2", "3", "4", "5", "6", "7"}:
        return int(given) % 7
    for number, name in enumerate(_DAYS):
        if given.lower() in (name, name[:3]):
            return number
    raise ValueError(f"{given!r} is not a weekday; write a name such as saturday, or 0 to 6")


def point_ms(text: str) -> int:
    """Return the epoch milliseconds of an RFC 3339 point in time."""
    try:
        if not _POINT.fullmatch(text):
            raise ValueError
        passed = datetime.fromisoformat(text.upper()) - _EPOCH
    except ValueError:
        raise ValueError(
            f"{text!r} is not a point in time; write one such as 2026-03-15T14:00:00Z"
        ) from None
    return passed // timedelta(milliseconds=1)


def _minute(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a time of day; write one such as 08:00")
    return int(found[1]) * 60 + int(found[2])
