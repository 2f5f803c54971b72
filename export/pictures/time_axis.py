"""A time axis that leaves pauses out: the places of moments, and its labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .words import clock, day

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: How wide a pause is drawn, in pixels.
PAUSE_WIDTH = 40.0

#: How far two labels are apart at least, in pixels.
_LABEL_APART = 70.0

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000

#: The steps between labels, in milliseconds, that people read well.
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)


@dataclass(frozen=True, slots=True)
class Label:
    """A label of the axis; `date` only where it differs from that of the label before."""

    x: float
    clock: str
    date: str | None


class TimeAxis:
    """A scale from epoch milliseconds to pixels. Between pauses it is even.

    Args:
        first_ms, last_ms: its first and last moment.
        pauses: the pauses to leave out, from and to, in order.
        left, right: its place in the picture.
    """

    def __init__(
        self,
        first_ms: int,
        last_ms: int,
        pauses: Sequence[tuple[int, int]],
        left: float,
        right: float,
    ) -> None:
        self._pauses = pauses
        self._left = left
        drawn_ms = last_ms - first_ms - sum(end - start for start, end in pauses)
        room = right - left - PAUSE_WIDTH * len(pauses)
        self._px_per_ms = room / max(drawn_ms, 1)
        starts = [first_ms, *(end for _, end in pauses)]
        ends = [*(start for start, _ in pauses), last_ms]
        #: The stretches between pauses: from, to, and where the first moment stands.
        self._stretches: list[tuple[int, int, float]] = []
        x = left
        for start, end in zip(starts, ends, strict=True):
            self._stretches.append((start, end, x))
            x += (end - start) * self._px_per_ms + PAUSE_WIDTH

    def x(self, ts_ms: int) -> float:
        """Return the place of a moment; one within a pause has that of its beginning."""
        for start, end, x in reversed(self._stretches):
            if ts_ms >= start:
                return x + (min(ts_ms, end) - start) * self._px_per_ms
        return self._left

    def pauses(self) -> list[tuple[float, str]]:
        """Return the place of each pause, and its true length."""
        return [(self.x(start), length(end - start)) for start, end in self._pauses]

    def labels(self) -> list[Label]:
        """Return the labels: at the end of pauses, and even ones between."""
        taken: list[int] = []
        for start, _, _ in self._stretches:
            self._take(taken, start)
        step = self._step()
        for start, end, _ in self._stretches:
            for moment in range(-(-start // step) * step, end + 1, step):
                self._take(taken, moment)
        seconds = step < _MINUTE
        labels, before = [], ""
        for moment in sorted(taken):
            date = day(moment)
            shown = clock(moment) if seconds else clock(moment)[:5]
            labels.append(Label(self.x(moment), shown, None if date == before else date))
            before = date
        return labels

    def _step(self) -> int:
        """Return the milliseconds between even labels: whole years where ages are shown."""
        wanted = _LABEL_APART / self._px_per_ms
        year = _STEPS[-1]
        return next((step for step in _STEPS if step >= wanted), math.ceil(wanted / year) * year)

    def _take(self, taken: list[int], moment: int) -> None:
        x = self.x(moment)
        if all(abs(x - self.x(other)) >= _LABEL_APART for other in taken):
            taken.append(moment)


def length(duration_ms: int) -> str:
    """Return a duration as people say it: `3 d`, `14 h`, `25 min`, `40 s`."""
    for unit_ms, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if duration_ms >= unit_ms:
            return f"{duration_ms / unit_ms:.0f} {unit}"
    return f"{duration_ms / _SECOND:.0f} s"
