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

#: Between two looks at the offset of a zone. No zone sets its clocks forward and back within that.
_STEP_S = 6 * HOUR_S

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


def stretches(begin: int, end: int, zone: tzinfo) -> tuple[Stretch, ...]:
    """Return the stretches of a time in order, without a gap.

    Args:
        begin, end: whole days of real time.
        zone: the zone.
    """
    return tuple(
        stretch for day in range(begin, end, DAY_S) for stretch in _stretches_of_day(day, zone)
    )


@lru_cache(maxsize=4096)
def _stretches_of_day(begin: int, zone: tzinfo) -> tuple[Stretch, ...]:
    """Return the stretches of a day of UTC: one, where clocks aren't set."""
    end = begin + DAY_S
    marks = [begin]
    offset = _offset(begin, zone)
    for after in range(begin + _STEP_S, end + 1, _STEP_S):
        then = _offset(after, zone)
        if then != offset:
            change = _change_between(after - _STEP_S, after, offset, zone)
            if change < end:  # at its end the next day begins
                marks.append(change)
            offset = then
    ends = [*marks[1:], end]
    return tuple(Stretch(a, b, _offset(a, zone)) for a, b in zip(marks, ends, strict=True))


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
