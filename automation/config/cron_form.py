"""The form of a cron expression: five fields, as Debian's crontab has them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from ...schema.errors import InvalidInput

#: The fields in their order, with what each may be.
_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat; 0 and 7 are Sunday",
}

#: The characters of a field. The library has more forms (`L`, `#`), which cron has not.
_PLAIN = re.compile(r"[0-9a-zA-Z*,/-]+")
_EXTENSION = re.compile(r"(?i)\b(?:l|lw|\d+l)\b")

#: The names that crontab has for lines, and their fields.
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


def check_cron(text: str) -> str:
    """Return a cron expression with one space between its fields.

    Raises:
        InvalidInput: it is wrong; the error names the field and its value.
    """
    fields = text.split()
    if len(fields) != len(_FIELDS):
        instead = _NAMES.get(text.strip().lower())
        raise InvalidInput(
            f"cron {text!a} has {len(fields)} fields, and not five: minute, hour, day of month,"
            f" month, day of week{f'; write {instead}' if instead else ''}"
        )
    for (name, may_be), value in zip(_FIELDS.items(), fields, strict=True):
        if not _PLAIN.fullmatch(value) or _EXTENSION.search(value):
            raise InvalidInput(f"cron {text!a}: {name} {value!a} is not {may_be}")
    try:
        CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidInput(_explained(text, fields, str(error))) from error
    return " ".join(fields)


def _explained(text: str, fields: list[str], error: str) -> str:
    """Return an error of the library with the value that it is about."""
    name = error.removeprefix("Bad ")
    value = dict(zip(_FIELDS, fields, strict=True)).get(name)
    if value is None:
        return f"cron {text!a}: {error}"
    return f"cron {text!a}: {name} {value!a} is not {_FIELDS[name]}"
