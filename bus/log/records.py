"""The records of the log and its archive: loaded where needed, as making classes takes long."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.arguments import with_checked_arguments
from .catalog import Catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..local_bus import LocalBus


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


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class Stats:
    """The counts of the catalog.

    Attributes:
        messages: how many messages the log holds.
        newest_seq: the seq of the newest; 0 before the first.
        by_type: how many there are of each type, by name.
        by_sender: how many each agent has sent, by name.
    """

    messages: int
    newest_seq: int
    by_type: dict[str, int]
    by_sender: dict[str, int]

    @classmethod
    def of(cls, bus: LocalBus) -> Stats:
        """Count the messages of a bus, as `Bus.stats` does."""
        newest = bus.log.newest_seq()
        catalog = Catalog.of(bus)
        catalog.catch_up(newest)
        by_type, by_sender = catalog.counts("type"), catalog.counts("from")
        if bus.backup_made_at_ms is not None:  # messages that came while it was copied
            for message in bus.log.read(after_seq=catalog.position()):
                by_type[message.type] = by_type.get(message.type, 0) + 1
                by_sender[message.from_agent] = by_sender.get(message.from_agent, 0) + 1
        return cls(sum(by_type.values()), newest, by_type, by_sender)
