"""Time zones by their names, but for those that no clock of ours goes by."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: The zones of clocks that count leap seconds, which Python reads, and shows at wrong hours.
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
