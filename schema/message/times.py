"""Times: stored as whole UTC milliseconds since 1970, shown as RFC 3339 with milliseconds and Z."""

from __future__ import annotations

import time

from ..errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    #: A source of the present time in epoch milliseconds; tests give their own.
    Clock = Callable[[], int]

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"(?a)(\d+(?:\.\d+)?)(ms|s|m|h|d)?"

#: 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can show.
MAX_TS_MS = 253_402_300_799_999


def now_ms() -> int:
    """Return the present time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def format_ts(ts_ms: int) -> str:
    """Return `2026-01-10T14:00:00.000Z` for an epoch millisecond; the number if out of range."""
    if not 0 <= ts_ms <= MAX_TS_MS:
        return str(ts_ms)
    seconds, ms = divmod(ts_ms, 1000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def age(seconds: float) -> str:
    """Return an age for people, in the largest unit of which it has more than 1."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def parse_ts(text: str) -> int:
    """Return the epoch milliseconds of an RFC 3339 time, or of a plain number of milliseconds.

    A time without a zone is taken as UTC; digits below the millisecond are cut off.

    Raises:
        InvalidInput: `text` is neither, or lies outside the years 1970 to 9999.
    """
    try:
        ts_ms = int(text) if text.isdecimal() and text.isascii() else _parse_iso(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{shown(text)} is not a time like 2026-01-10T14:00:00Z") from error
    if not 0 <= ts_ms <= MAX_TS_MS:
        raise InvalidInput(f"the time {shown(text)} lies outside the years 1970 to 9999")
    return ts_ms


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as `90`, `1.5s`, `250ms`, `10m`, `2h`, `7d`.

    A bare number counts seconds.

    Raises:
        InvalidInput: `text` has another form.
    """
    match = _duration(text)
    if match is None or len(text) > 15:
        raise InvalidInput(f"{shown(text)} is not a duration like 30s, 10m, 2h or 7d")
    return round(float(match[1]) * _UNITS_MS[match[2] or "s"])


def parse_since(text: str, now: int) -> int:
    """Return the epoch milliseconds of a time, or of a duration before `now`."""
    if _duration(text) and not text.isdecimal():
        return max(0, now - parse_duration_ms(text))
    return parse_ts(text)


def _duration(text: str) -> re.Match[str] | None:
    import re  # the pattern is made when one is read: most commands read none

    return re.fullmatch(_DURATION, text)


def _parse_iso(text: str) -> int:
    from datetime import UTC, datetime

    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1000 + moment.microsecond // 1000
