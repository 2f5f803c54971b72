"""The form of a cron expression: five fields, as in Debian's crontab."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

#: The fields in their order.
FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")

#: Nothing else is in a field: not `L`, `W`, `#` or `?`, which other programs have.
_FIELD = re.compile(r"[0-9A-Z*,/-]+")
_LAST = re.compile(r"\d*LW?|\d+W")

#: Macros that crontab has for lines of its own.
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def check_cron(text: str) -> str:
    """Return a cron expression with one space between its fields.

    Raises:
        ValueError: it is none; the message has the field and the value that is wrong.
    """
    parts = text.split()
    if text.strip() in _MACROS:
        raise ValueError(f"{text!r} has no fields; write {_MACROS[text.strip()]!r}")
    if len(parts) != len(FIELDS):
        told = f"{text!r} has {len(parts)} fields; write five: {' '.join(FIELDS)}"
        raise ValueError(told)
    for name, part in zip(FIELDS, parts, strict=True):
        _check_field(name, part)
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:  # each field is right alone
        raise ValueError(f"{text!r} has no day that exists; its month is too short") from None
    return " ".join(parts)


def _check_field(name: str, part: str) -> None:
    fields = ["*"] * len(FIELDS)
    fields[FIELDS.index(name)] = part
    terms = part.upper().split(",")
    is_known = _FIELD.fullmatch(part.upper()) and not any(map(_LAST.fullmatch, terms))
    try:
        if not is_known:
            raise CronSimError
        CronSim(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        raise ValueError(f"{part!r} is no {name} of a cron expression") from None
