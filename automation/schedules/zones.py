"""Time zones by their names, and the machine's own; times as clocks there show them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...schema.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo

#: The link by which most systems name their zone.
_LOCALTIME = "/etc/localtime"


def local_time(at_ms: int, zone: tzinfo) -> datetime:
    """Return a time as clocks in a zone show it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


@lru_cache(maxsize=256)
def zone_of(name: str | None) -> ZoneInfo:
    """Return a time zone; None is the machine's own, and UTC where that has no name.

    Raises:
        InvalidInput: there is no zone of this name.
    """
    if name is None:
        return _own_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"there is no time zone {name!a}; give one like Europe/Berlin"
        ) from error


def _own_zone() -> ZoneInfo:
    path = os.path.realpath(_LOCALTIME)
    named = os.environ.get("TZ", "").lstrip(":") or path.partition("/zoneinfo/")[2]
    try:
        return ZoneInfo(named)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")
