"""The errors of the log: a part of its archive that can't be read."""

from __future__ import annotations

from ..schema.errors import BusUnusable


class SegmentMissing(BusUnusable):
    """A part of the archive is missing or damaged.

    Attributes:
        first_seq, last_seq: the range of the log that can't be read by it: a frame, where the
            others around it may be whole, or all that is in a file that can't be opened.
    """

    def __init__(self, first_seq: int, last_seq: int, path: str, why: str | None) -> None:
        self.first_seq, self.last_seq = first_seq, last_seq
        super().__init__(
            f"messages {first_seq} to {last_seq} are in {path}, which"
            f" can't be read: {why}; put it back"  # what else helps, whoever asked knows
        )
