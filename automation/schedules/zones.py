"""Time zones by their names, and the machine's own; times as clocks there show them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfoNotFoundError

from ...schema.errors import InvalidInput
from ..config.named_zone import named_zone
from ..config.own_zone import own_zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo
    from zoneinfo import ZoneInfo


def local_time(at_ms: int, zone: tzinfo) -> datetime:
    """Return a time as clocks in a zone show it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


def zone_of(name: str | None) -> ZoneInfo:
    """Return a time zone; None is the machine's own, and UTC where that has none.

    Raises:
        InvalidInput: there is no zone of this name, or the machine's own can't be read.
    """
    return own_zone() if name is None else _named(name)


@lru_cache(maxsize=256)
def _named(name: str) -> ZoneInfo:
    try:
        return named_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"there is no time zone {name!a}; give one like Europe/Berlin"
        ) from error
