"""The machine's own time zone, by TZ and /etc/localtime. One that can't be read is never UTC."""

from __future__ import annotations

import io
import os
import re
import struct
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...schema.errors import InvalidInput
from .reading import read_bytes

# Time zones by name, without those that count leap seconds.

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
def _own_zone(text: str | None) -> ZoneInfo:
    named = _LOCALTIME if text is None else text.removeprefix(":")
    if not named or (text is None and not os.path.lexists(_LOCALTIME)):
        return ZoneInfo("UTC")
    try:
        return _of_file(named) if named.startswith("/") else _of_name(named)
    except _UNREADABLE as error:
        what = _LOCALTIME if text is None else f"TZ={text!a}"
        raise InvalidInput(
            f"{what} is no time zone that can be read; set TZ to one like Europe/Berlin, or name"
            " a timezone"
        ) from error


def _of_file(path: str) -> ZoneInfo:
    named = os.path.realpath(path).partition("/zoneinfo/")[2]
    try:
        return named_zone(named)  # by its name, where it has one
    except _UNREADABLE:
        data = read_bytes(path)  # it is a copy
    refuse_leap_seconds(data)
    return ZoneInfo.from_file(io.BytesIO(data), key=path)


def _of_name(named: str) -> ZoneInfo:
    try:
        return named_zone(named)
    except _UNREADABLE:
        rule = _RULE.fullmatch(named)
        if rule is None:
            raise
    has_dates = not rule["summer"] or "," in rule["summer"]
    return _of_rule(named if has_dates else named + _USUAL_DATES, named)


def _of_rule(rule: str, key: str) -> ZoneInfo:
    """Return the zone of a POSIX rule such as CET-1CEST,M3.5.0,M10.5.0/3."""
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    data = block + block + b"\n" + rule.encode("ascii") + b"\n"
    return ZoneInfo.from_file(io.BytesIO(data), key=key)
