"""Forms of values in a configuration: cron expressions, durations, sizes, rates, times, zones."""

from __future__ import annotations

import io
import os
import re
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...schema.errors import InvalidInput
from .files import read_bytes
from .values import PartOf, Rate

# Cron expressions: five fields, as Debian's crontab has them.
#
# An expression of another form raises InvalidInput that names it and the expected form.


@dataclass(frozen=True, slots=True)
class _CronField:
    """The form of a field.

    Attributes:
        name: what it is called in errors.
        least, most: its smallest and its largest value.
        values_text: its values in words.
        words: names that stand for its values, from `least` on.
    """

    name: str
    least: int
    most: int
    values_text: str
    words: tuple[str, ...] = ()


_FIELDS = (
    _CronField("minute", 0, 59, "0 to 59"),
    _CronField("hour", 0, 23, "0 to 23"),
    _CronField("day-of-month", 1, 31, "1 to 31"),
    _CronField(
        "month",
        1,
        12,
        "1 to 12, or jan to dec",
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ),
    _CronField(
        "day-of-week",
        0,
        7,
        "0 to 7, or sun to sat; 0 and 7 are Sunday",
        ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
    ),
)

#: A term of a field: `*`, a value or a range, and perhaps a step.
_TERM = re.compile(r"(?:\*|([0-9]{1,9}|[a-z]{3})(?:-([0-9]{1,9}|[a-z]{3}))?)(?:/([0-9]{1,9}))?")

#: The names that crontab has for lines, and their fields.
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

#: How many days a month has at most, by its number.
_LENGTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class CronFields:
    """The values that the fields of a cron expression stand for, each in order.

    Attributes:
        text: the expression, with one space between its fields.
        minutes, hours, days, months: the values.
        weekdays: the days of the week, Sunday is 0.
        needs_both_days: whether the day of the month and the day of the week must both match;
            otherwise either is enough.
        follows_real_time: whether due times in the hour of a clock change are skipped or repeated
            with it; true if the minutes or the hours begin with `*`.
    """

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: frozenset[int]
    needs_both_days: bool
    follows_real_time: bool


def cron_fields(text: str) -> CronFields:
    """Return the fields of a cron expression.

    Raises:
        InvalidInput: it is malformed, or its months have none of its days; the error names the
            field and its value.
    """
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise InvalidInput(_wrong_count(text, len(parts)))
    minutes, hours, days, months, weekdays = (
        _values(text, form, part) for form, part in zip(_FIELDS, parts, strict=True)
    )
    # As in Debian's cron, a `*` in either makes it an and.
    needs_both_days = parts[2].startswith("*") or parts[4].startswith("*")
    if needs_both_days and days[0] > max(_LENGTHS[month] for month in months):
        raise InvalidInput(f"cron {text!a} never comes: month {parts[3]!a} has no day {parts[2]!a}")
    return CronFields(
        " ".join(parts),
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        needs_both_days,
        parts[0].startswith("*") or parts[1].startswith("*"),
    )


def check_cron(text: str) -> str:
    """Return a cron expression with one space between its fields.

    Raises:
        InvalidInput: it is wrong; the error names the field and its value.
    """
    return cron_fields(text).text


def _wrong_count(text: str, count: int) -> str:
    nickname = text.strip().lower()
    instead = _NICKNAMES.get(nickname)
    if instead is not None:
        hint = f"; write {instead}"
    elif nickname == "@reboot":
        hint = "; a schedule with 'after: 1s' runs once after each start"
    else:
        hint = ""
    return (
        f"cron {text!a} has {count} fields, and not five: minute, hour, day of month, month, day of"
        f" week{hint}"
    )


def _values(text: str, form: _CronField, part: str) -> tuple[int, ...]:
    """Return the values of a field, in order."""
    values: set[int] = set()
    for term in part.lower().split(","):
        of_term = _values_of_term(form, term)
        if not of_term:
            raise InvalidInput(f"cron {text!a}: {form.name} {part!a} is not {form.values_text}")
        values.update(of_term)
    return tuple(sorted(values))


def _values_of_term(form: _CronField, term: str) -> range:
    """Return the values of a term; none where it is wrong."""
    match = _TERM.fullmatch(term)
    if match is None:
        return range(0)
    first, last, step = match[1], match[2], int(match[3] or 1)
    if first is None:
        low, high = form.least, form.most
    else:
        low = high = _value(form, first)
        if last:
            high = _value(form, last)
        elif match[3]:  # a step after a single value goes on from it to the end of the field
            high = form.most
    is_within = form.least <= low <= high <= form.most
    return range(low, high + 1, step) if is_within and step else range(0)


def _value(form: _CronField, text: str) -> int:
    """Return the value of a number or a name; -1 where it is neither."""
    if text.isdigit():
        return int(text)
    return form.least + form.words.index(text) if text in form.words else -1


# Durations, sizes, rates, parts of requests, times and weekdays.
#
# A value of another form raises a ValueError that names the value and the expected form.

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
    if match := _SIZE.fullmatch(text):
        exponent = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3}[(match[2] or "").upper()[:1]]
        size: int = int(match[1]) * 1024**exponent
        if 0 < size < 1 << 63:
            return size
    raise ValueError(f"{text!r} is not a positive size; write bytes, or one such as 64KB or 1MB")


def rate_of(text: str) -> Rate:
    """Return the rate of ``10/s``, ``60/m`` or ``1000/h``."""
    if (match := _RATE.fullmatch(text)) and int(match[1]):
        return Rate(int(match[1]), _UNITS[match[2]])
    raise ValueError(f"{text!r} is no rate; write one such as 10/s, 60/m or 1000/h")


def part_of(text: str) -> PartOf:
    """Return the part of a request that ``header:NAME`` or ``body:FIELD`` names."""
    if match := _PART_OF.fullmatch(text):
        return PartOf("header", match[1]) if match[1] else PartOf("body", match[2])
    raise ValueError(f"{text!r} is no part of a request; write header:NAME or body:FIELD")


def minute_of_day(text: str) -> int:
    """Return the minutes after midnight of a time such as ``08:00``."""
    match = _CLOCK.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a time of day; write one such as 08:00")
    return int(match[1]) * 60 + int(match[2])


def weekday(text: str) -> int:
    """Return the weekday of a name (``saturday``, ``sat``) or a number, as cron counts: 0 Sunday.

    The number 7 is Sunday, too.
    """
    if text in {"0", "1", "2", "3", "4", "5", "6", "7"}:
        return int(text) % 7
    for number, name in enumerate(_DAYS):
        if text.lower() in (name, name[:3]):
            return number
    raise ValueError(f"{text!r} is not a weekday; write a name such as saturday, or 0 to 6")


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


# Time zones: by name, without those that count leap seconds; and the machine's own, by TZ and
# /etc/localtime. A machine's zone that can't be read is an error: it does not become UTC.

#: Zones that count leap seconds: Python reads them, but shows wrong hours.
_WITH_LEAP_SECONDS = "right/"

#: Where a file of a zone tells how many leap seconds it has: four bytes of its header.
_LEAPS = slice(28, 32)


def named_zone(name: str) -> ZoneInfo:
    """Return a zone of the IANA database.

    Raises:
        ZoneInfoNotFoundError: there is none of this name, or it counts leap seconds.
        ValueError, OSError: the name leads out of the database, or to a folder.
    """
    if name.startswith(_WITH_LEAP_SECONDS):
        raise ZoneInfoNotFoundError(name)
    return ZoneInfo(name)


def refuse_leap_seconds(data: bytes) -> None:
    """Refuse the content of a file of a zone that counts leap seconds.

    Raises:
        ValueError: it does.
    """
    if any(data[_LEAPS]):
        raise ValueError("it counts leap seconds")


#: The zone of the machine: a link to a file of the database, or a copy of one.
_LOCALTIME = "/etc/localtime"

#: When summer time is where a rule doesn't say so, as the C library has it.
_USUAL_DATES = ",M3.2.0,M11.1.0"

_RULE = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d[\d:]*(?P<summer>.*)", re.ASCII)

_UNREADABLE = (ZoneInfoNotFoundError, ValueError, OSError, IndexError, struct.error)


def own_zone() -> ZoneInfo:
    """Return the zone of this process: from TZ, else from /etc/localtime; UTC without either.

    Raises:
        InvalidInput: it can't be read.
    """
    return _own_zone(os.environ.get("TZ"))


@lru_cache(maxsize=16)
def _own_zone(tz: str | None) -> ZoneInfo:
    """Return the zone that a value of TZ names; None: TZ is not set."""
    zone = _LOCALTIME if tz is None else tz.removeprefix(":")
    if not zone or (tz is None and not os.path.lexists(_LOCALTIME)):
        return ZoneInfo("UTC")
    try:
        return _of_file(zone) if zone.startswith("/") else _of_name_or_rule(zone)
    except _UNREADABLE as error:
        what = _LOCALTIME if tz is None else f"TZ={tz!a}"
        raise InvalidInput(
            f"{what} is no time zone that can be read; set TZ to one like Europe/Berlin, or name"
            " a timezone"
        ) from error


def _of_file(path: str) -> ZoneInfo:
    """Return the zone of a file: a link into the database has its name there, a copy its path."""
    name_in_database = os.path.realpath(path).partition("/zoneinfo/")[2]
    try:
        return named_zone(name_in_database)
    except _UNREADABLE:  # it is a copy
        data = read_bytes(path)
    refuse_leap_seconds(data)
    return ZoneInfo.from_file(io.BytesIO(data), key=path)


def _of_name_or_rule(text: str) -> ZoneInfo:
    try:
        return named_zone(text)
    except _UNREADABLE:
        rule = _RULE.fullmatch(text)
        if rule is None:
            raise
    lacks_dates = rule["summer"] and "," not in rule["summer"]
    return _of_rule(text + _USUAL_DATES if lacks_dates else text, text)


def _of_rule(rule: str, key: str) -> ZoneInfo:
    """Return the zone of a POSIX rule such as CET-1CEST,M3.5.0,M10.5.0/3.

    `ZoneInfo` takes rules only from a file. So this makes one of version 2 (RFC 8536): two blocks
    that know UTC alone and no change of clocks, and after them the rule, which is for all times.
    """
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    data = block + block + b"\n" + rule.encode("ascii") + b"\n"
    return ZoneInfo.from_file(io.BytesIO(data), key=key)
