"""Cron expressions: five fields, as Debian's crontab has them.

An expression of another form raises InvalidInput that names it and the expected form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...schema.errors import InvalidInput


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
