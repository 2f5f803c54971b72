"""Mending of cursors, queues and work in a file that was damaged.

A row that is lost must not take work with it: what is not known to be done is done again.
"""

from __future__ import annotations

from ..schema import (
    Mended,
    Queries,
    TypePattern,
    fits_pattern,
    is_too_wide,
    ranges,
    without_triggers,
)
from .jobs import Jobs
from .queues import Queues
from .wishes import WorkHeaders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..bus import Bus
    from ..schema import Message
    from .queues import QueueInfo

#: What puts jobs and claims right, and what finds those that it changes.
MENDING = Queries(beside=__file__, file="mending.sql")

#: Whether no queue has a message, nor will take it in. A queue of which SQL can't tell what it
#: takes hides nothing, and a message that both it and an inbox have is not lost.
_IS_OF_NO_QUEUE = f"""NOT EXISTS (SELECT 1 FROM queues
  WHERE EXISTS (SELECT 1 FROM jobs WHERE queue_id = queues.id AND jobs.seq = messages.seq)
     OR (filled_seq < messages.seq AND (to_agent IS NULL OR addressed IN ('*', to_agent))
         AND {fits_pattern("type", "pattern")} AND NOT {is_too_wide("pattern")}))"""
MENDING |= {
    name: text.replace("{is_of_no_queue}", _IS_OF_NO_QUEUE) for name, text in MENDING.items()
}


def mend(bus: Bus, lossy: Collection[str]) -> Iterator[Mended]:
    """Mend rows that contradict each other, in one transaction.

    Args:
        bus: the bus, which no other process may use.
        lossy: the tables that have lost rows.
    """
    connection = bus.database.connection
    with bus.database.write():
        now_ms = bus.database.now_ms()
        for name in _column(bus, "add_lost_queues", now_ms):
            yield Mended("queues", f"{name} is paused, for its jobs", "its name, pattern and rules")
        yield from _told("jobs", "known by their claims alone", _column(bus, "add_jobs_of_claims"))
        cancelled = _column(bus, "cancel_jobs_of_lost_messages", now_ms)
        if cancelled:
            yield Mended("jobs", f"{ranges(cancelled)} cancelled", "the messages of these")
        yield from _told("claims", "ended as lost", _column(bus, "end_idle_claims", now_ms))
        yield from _told("jobs", "queued, since they run", _column(bus, "queue_unheld_jobs"))
        if "jobs" in lossy:
            for info in Queues(bus).list():
                again = list(_work_again(bus, info))
                yield from _told("jobs", f"of {info.name} queued again", again)
        with without_triggers(
            connection
        ):  # they guard what was published, and this is no part of it
            given_back = _column(bus, "give_work_back")
        yield from _told("messages", "are mail again: no queue takes them", given_back)
        if {"jobs", "messages", "queues", "waiting_limits"} & set(lossy):
            bus.database.rows(MENDING["count_waiting"])


def _told(part: str, what: str, seqs: list[int]) -> Iterator[Mended]:
    if seqs:
        yield Mended(part, f"{ranges(seqs)} {what}")


def _column(bus: Bus, statement: str, *values: object) -> list[int]:
    return [row[0] for row in bus.database.rows(MENDING[statement], values)]


def _work_again(bus: Bus, info: QueueInfo) -> Iterator[int]:
    """Queue the messages between a queue's first job and its position whose jobs are lost."""
    first = bus.database.value(MENDING["first_job"], (info.id,))
    if first is None:
        return  # where the queue began is not known
    jobs = Jobs(bus.database)
    pattern = TypePattern(info.pattern).text
    messages = bus.log.read(after_seq=first, upto_seq=info.filled_seq, type=pattern)
    for message in [each for each in messages if info.policy.takes(each.to_agent)]:
        if bus.database.value(MENDING["has_job"], (info.id, message.seq)) is None:
            _add(bus, jobs, info, message)
            yield message.seq


def _add(bus: Bus, jobs: Jobs, info: QueueInfo, message: Message) -> None:
    created_at_ms = max(0, min(message.ts_ms, bus.database.now_ms()))
    wanted = WorkHeaders.of(message)
    if wanted is None:
        jobs.add([jobs.row(info, message, created_at_ms, info.rank_clock_ms)])
    else:
        jobs.add_special(info, message, wanted, created_at_ms, info.rank_clock_ms)
