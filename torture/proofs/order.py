"""Order in time: an act that began after another was over must have the higher numbers."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Numbered(NamedTuple):
    """An act that gave out numbers.

    Attributes:
        began_ns, ended_ns: the times before it began, and after it returned.
        low, high: the lowest and the highest of its numbers.
        who: its agent, for people.
    """

    began_ns: int
    ended_ns: int
    low: int
    high: int
    who: str


def out_of_order(acts: Iterable[Numbered]) -> Iterator[tuple[Numbered, Numbered]]:
    """Yield pairs of which the first ended before the second began, without lower numbers."""
    acts = list(acts)
    over = sorted(acts, key=lambda act: act.ended_ns)
    next_over = 0
    highest: Numbered | None = None
    for act in sorted(acts):
        while over[next_over].ended_ns < act.began_ns:
            if highest is None or over[next_over].high > highest.high:
                highest = over[next_over]
            next_over += 1
        if highest is not None and highest.high >= act.low:
            yield highest, act


class Known:
    """The highest number that any process knew, at any moment.

    Args:
        acts: the acts that gave out numbers.
    """

    def __init__(self, acts: Iterable[Numbered]) -> None:
        over = sorted((act.ended_ns, act.high) for act in acts)
        self._ended_ns = [ended_ns for ended_ns, _ in over]
        self._highest = list(accumulate((high for _, high in over), max))

    def at(self, moment_ns: int) -> int:
        """Return the highest number that a process knew before a moment; 0 for none."""
        count = bisect_left(self._ended_ns, moment_ns)
        return self._highest[count - 1] if count else 0
