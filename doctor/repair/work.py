"""Mending of cursors, queues and work in a file that was damaged.

A row that is lost must not take work with it: what is not known to be done is done again. But not
what is acted upon: a message alone has nobody's right. Approved tasks enter again by their rows, as
the integrator begins; the other jobs are noted as such that no step published.
"""

from __future__ import annotations

from ...schema.findings import Mended
from ...schema.message.patterns import TypePattern
from ...schema.queries import file_of
from ...schema.sqlite.transactions import without_triggers
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.work_headers import WorkHeaders
from ...subscribers.queues.queues import Queues
from ..recovery.damage import ranges
from ..work_statements import MENDING, seqs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.queues.queues import QueueInfo


def mend_work(bus: Bus, lossy: Collection[str]) -> Iterator[Mended]:
    """Mend rows that contradict each other, in one transaction.

    Args:
        bus: the bus, which no other process may use.
        lossy: the tables that have lost rows.
    """
    with bus.transaction():
        now_ms = bus.now_ms()
        for name in seqs_of(bus, "add_lost_queues", now_ms):
            yield Mended("queues", f"{name} is paused, for its jobs", "its name, pattern and rules")
        yield from _told("jobs", "known by their claims alone", seqs_of(bus, "add_jobs_of_claims"))
        cancelled = seqs_of(bus, "cancel_jobs_of_lost_messages", now_ms)
        if cancelled:
            yield Mended("jobs", f"{ranges(cancelled)} cancelled", "the messages of these")
        yield from _told("claims", "ended as lost", seqs_of(bus, "end_idle_claims", now_ms))
        yield from _told("jobs", "queued, since they run", seqs_of(bus, "queue_unheld_jobs"))
        if "jobs" in lossy:
            for info in Queues(bus).list():
                again = list(_work_again(bus, info))
                what = f"of {info.name} queued again"
                if info.is_acted_upon:
                    what = f"of {info.name} are not known to be of a step: ask for them again"
                yield from _told("jobs", what, again)
        # They guard what was published, and this is no part of it.
        with without_triggers(file_of(bus).connection):
            given_back = seqs_of(bus, "give_work_back")
        yield from _told("messages", "are mail again: no queue takes them", given_back)
        if {"jobs", "messages", "queues", "waiting_limits"} & set(lossy):
            file_of(bus).rows(MENDING["count_waiting"])


def _told(part: str, what: str, seqs: list[int]) -> Iterator[Mended]:
    if seqs:
        yield Mended(part, f"{ranges(seqs)} {what}")


def _work_again(bus: Bus, info: QueueInfo) -> Iterator[int]:
    """Queue the messages between a queue's first job and its position whose jobs are lost."""
    first = file_of(bus).value(MENDING["first_job"], (info.id,))
    if first is None:
        return  # where the queue began is not known
    jobs = Jobs.of(bus)
    pattern = TypePattern(info.pattern).text
    messages = bus.log.read(after_seq=first, upto_seq=info.filled_seq, type=pattern)
    for message in [each for each in messages if info.policy.takes(each.to_agent)]:
        if file_of(bus).value(MENDING["has_job"], (info.id, message.seq)) is None:
            _add(bus, jobs, info, message)
            yield message.seq


def _add(bus: Bus, jobs: Jobs, info: QueueInfo, message: Message) -> None:
    created_at_ms = max(0, min(message.ts_ms, bus.now_ms()))
    wanted = WorkHeaders.of(message)
    if info.is_acted_upon:
        jobs.add_unproven(info, message, created_at_ms, info.rank_clock_ms)
    elif wanted is None:
        jobs.add([jobs.row(info, message, created_at_ms, info.rank_clock_ms)])
    else:
        jobs.add_special(info, message, wanted, created_at_ms, info.rank_clock_ms)
