"""The work at hand in a queue, found by one look at its tables. Looking takes no write lock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtHand:
    """The jobs that a claim would find without filling the queue.

    Attributes:
        ready: how many jobs may be claimed, counted up to a limit.
        is_due: whether there are some whose time has come.
        is_lost: whether there are some whose workers are lost.
        is_shut: whether nothing may begin, since the queue is paused or as many run as may.
        is_by_age: whether what comes later never goes first.
    """

    ready: int
    is_due: int
    is_lost: int
    is_shut: int
    is_by_age: int

    @property
    def is_something(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.is_due or self.is_lost or (self.ready and not self.is_shut))


#: Assumed for a worker that was idle and hears of new messages: it begins without counting the work
#: that is ready. Its next look, after these messages, is for all work.
NEWS = AtHand(ready=0, is_due=0, is_lost=0, is_shut=0, is_by_age=1)


@dataclass(frozen=True, slots=True)
class QueueAtHand:
    """The work at hand in one queue of several.

    Attributes:
        id: the queue.
        first_seq: the job that goes first, or None where none may be claimed.
        next_due_ms: when the next delay ends, in epoch milliseconds; None without one.
        is_shut: whether nothing may begin, since the queue is paused or as many run as may.
    """

    id: int
    first_seq: int | None
    next_due_ms: int | None
    is_shut: int
