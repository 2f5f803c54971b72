"""The imported messages and the times of their imports: an entry of the table `meta`.

An imported message keeps the time at which it was sent, perhaps on another bus and long ago.
Retention needs the time that it has waited here.
"""

from __future__ import annotations

import orjson

from ...schema.queries import Table
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: First seq, last seq, and the epoch millisecond at which the first of them came.
    Range = tuple[int, int, int]

#: Imports within this time of the first count as one, in milliseconds: an hour. Retention counts
#: in days.
_JOIN_MS = 3_600_000

#: How many imports are remembered. Messages of older ones count by the time they were sent.
_MAX_RANGES = 1000


class Imports(Table):
    """The entry `imports` of the table `meta`."""

    def note(self, first_seq: int, last_seq: int) -> None:
        """Note that these messages have come now; in the transaction that stores them."""
        at_ms = self._engine.now_ms()
        ranges = self._ranges()
        if ranges and 0 <= at_ms - ranges[-1][2] < _JOIN_MS:
            first_seq, _, at_ms = ranges.pop()
        ranges.append((first_seq, last_seq, at_ms))
        text = orjson.dumps(ranges[-_MAX_RANGES:]).decode()
        self._engine.change(SQL["set_imports"], (text,))

    def came_ms(self, seq: int) -> int | None:
        """Return when a message came by an import, in epoch milliseconds; None for others.

        A message published between imports that count as one counts as imported too.
        """
        for first_seq, last_seq, at_ms in self._ranges():
            if first_seq <= seq <= last_seq:
                return at_ms
        return None

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last seq of each import."""
        return [(first_seq, last_seq) for first_seq, last_seq, _ in self._ranges()]

    def _ranges(self) -> list[Range]:
        text = self._engine.value(SQL["imports"])
        return [] if text is None else [tuple(each) for each in orjson.loads(text)]
