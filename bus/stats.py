"""The counts of messages in the log."""

from __future__ import annotations

from dataclasses import dataclass


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
