"""The counts of messages in the log."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema.arguments import with_checked_arguments
from .log.catalog import Catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .bus import Bus


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
    def of(cls, bus: Bus) -> Stats:
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
