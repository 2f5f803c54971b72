"""The options of calls that pass them on, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict


class BusOptions(TypedDict, total=False):
    """The options of `Bus.open`.

    Attributes:
        durability: `full` where this process is to wait for the disk though the bus doesn't ask
            for it; None: as the bus asks (see `Bus.settings`).
        write_timeout_s: how long a write waits for other writers, in seconds; 30 by default.
        clock: returns the present time in epoch milliseconds; by default that of the system.
    """

    durability: Literal["normal", "full"] | None
    write_timeout_s: float
    clock: Callable[[], int]


class SearchFilters(TypedDict, total=False):
    """The filters of `Bus.search`.

    Attributes:
        type: only messages of types that fit this pattern.
        agent: only messages from or to it.
        conversation: only messages of this conversation.
        since_ms: only messages of this epoch millisecond or later.
        limit: how many at most; 20 by default.
    """

    type: str | None
    agent: str | None
    conversation: str | None
    since_ms: int | None
    limit: int
