"""The offsets of a time zone from UTC, and when they change.

Times are whole seconds since 1970: real ones in UTC, those of a clock as the clock shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400

#: The longest span that is looked at once, in seconds. No zone has set its clocks twice within that
#: since 1970: the least time in between was 6.9 days.
LONGEST_SPAN_S = 6 * DAY_S

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of real time in which a zone keeps its offset.

    Attributes:
        begin, end: in real time; the end is not within.
        offset: what its clock is ahead of UTC.
    """

    begin: int
    end: int
    offset: int


@lru_cache(maxsize=4096)
def stretches(begin: int, end: int, zone: tzinfo) -> tuple[Stretch, ...]:
    """Return the stretches of a time in order, without a gap: one, where clocks aren't set.

    Args:
        begin, end: a span of real time of `LONGEST_SPAN_S` at the most.
        zone: the zone.
    """
    offset, then = _offset(begin, zone), _offset(end, zone)
    change = end if offset == then else _change_between(begin, end, offset, zone)
    if change == end:  # there the next span begins
        return (Stretch(begin, end, offset),)
    return Stretch(begin, change, offset), Stretch(change, end, then)


def _change_between(before: int, after: int, offset: int, zone: tzinfo) -> int:
    """Return the first second at which a zone has no longer an offset."""
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after


def _offset(at: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None  # it is aware of its zone
    return offset // _SECOND
