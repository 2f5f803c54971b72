"""Names of time zones."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

from ..faults import near
from ..named_zone import named_zone


@cache
def check_timezone(name: str) -> str:
    """Return the name of a time zone of the IANA database.

    Raises:
        ValueError: there is no such zone.
    """
    try:
        named_zone(name)
    except (
        KeyError,
        OSError,
        ValueError,
    ):  # what is no zone may name a folder, or leave the database
        raise ValueError(
            f"{name!r} is no time zone{_near(name)}; write one such as Australia/Sydney"
        ) from None
    return name


def _near(name: str) -> str:
    """Return the zones that a name may mean: a city alone, or a name with a mistake."""
    zones = sorted(available_timezones())
    of_city = [zone for zone in zones if zone.rpartition("/")[2].lower() == name.lower()]
    return near(of_city[0] if of_city else name, of_city or zones)
