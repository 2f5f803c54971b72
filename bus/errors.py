"""The errors of the log: a part of its archive that can't be read, or was discarded."""

from __future__ import annotations

from ..schema.errors import BusUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .log.records import Discarded


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
            f" can't be read: {why}; put it back"  # callers add what else helps: `or_else`
        )

    def or_else(self, act: str) -> str:
        """Return the text with another thing to do."""
        return f"{self}, or {act}"


class MessageDiscarded(SegmentMissing):
    """A message is asked for that was archived, and discarded: no more can be read of it.

    Readers of a range go on after it.

    Attributes:
        seq: the message.
    """

    def __init__(self, seq: int, discarded: Discarded) -> None:
        self.seq = seq
        self.first_seq, self.last_seq = discarded.first_seq, discarded.last_seq
        BusUnusable.__init__(self, f"message {seq} is gone: {discarded}")

    def or_else(self, act: str) -> str:
        """Return the text with what is left to do."""
        return f"{self}; {act}"
