"""The records of the archive: loaded only where it is read, as making the classes takes a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of the archive.

    Attributes:
        first_seq, last_seq: the range of the log that it has, both included.
        messages: how many messages are in it.
        bytes: how long the file is.
        sha256: the file's checksum, in hex.
        archived_at_ms: when it was made, in epoch milliseconds.
    """

    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    sha256: str
    archived_at_ms: int


@dataclass(frozen=True, slots=True)
class ArchiveFrame:
    """A run of messages that is compressed by itself.

    Attributes:
        first_seq: its first message.
        segment: the first message of its segment.
        start, bytes: where in the file it is.
    """

    first_seq: int
    segment: int
    start: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Discarded:
    """A range of the log that was archived, and then deleted for good.

    Attributes:
        first_seq, last_seq: the range, both included.
        messages: how many messages were in it.
        at_ms: when, in epoch milliseconds.
    """

    first_seq: int
    last_seq: int
    messages: int
    at_ms: int

    def __str__(self) -> str:
        from ...schema.message.times import format_ts

        return (
            f"archived and discarded, seq {self.first_seq} to {self.last_seq},"
            f" at {format_ts(self.at_ms)}"
        )
