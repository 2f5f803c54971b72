"""The options of calls that pass them on, and the words of states, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

from ..schema.message.fields import Durability

#: Whether other agents may reserve the same file.
ReservationMode = Literal["exclusive", "shared"]

#: The place of a limit of waiting messages.
LimitKind = Literal["queue", "inbox"]


class BusOptions(TypedDict, total=False):
    """The options of `Bus.open`.

    Attributes:
        durability: `full` where this process is to wait for the disk though the bus doesn't ask
            for it; None: as the bus asks (see `Bus.settings`).
        write_timeout_s: how long a write waits for other writers, in seconds; 30 by default.
        clock: returns the present time in epoch milliseconds; by default that of the system.
    """

    durability: Durability | None
    write_timeout_s: float
    clock: Callable[[], int]


class ReadFilters(TypedDict, total=False):
    """The filters of all that read the log; a message must pass each that is given.

    Attributes:
        type: a type pattern, such as `task.done`, `task.*`, `task.>`; or several of them, of which
            one must fit.
        conversation: the id of a conversation, which is that of its first message.
        agent: an agent that sent it, or is its recipient.
        from_agent, to_agent: its sender; its recipient.
        since_ms, until_ms: its least and its greatest time, in epoch milliseconds.
    """

    type: str | Sequence[str] | None
    conversation: str | None
    agent: str | None
    from_agent: str | None
    to_agent: str | None
    since_ms: int | None
    until_ms: int | None


class SearchFilters(ReadFilters, total=False):
    """The filters of `Bus.search`.

    Attributes:
        limit: how many at most; 20 by default.
    """

    limit: int
