"""Checks of what is read: queues and their claims, dead letters, parked messages."""

from __future__ import annotations

from ...schema.findings import bad, ok, warn
from ...schema.message.times import format_ts
from ...subscribers.inboxes.failed_deliveries import Deliveries
from ...subscribers.jobs.jobs import DEAD, Jobs
from ...subscribers.queues.clock_back import newest_ms
from ...subscribers.queues.queues import Queues
from ...subscribers.views import Views
from ..recovery.damage import ranges
from ..work_statements import seqs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...schema.findings import Finding

#: Contradictions between messages, jobs and claims, by the statement that finds each.
_MISFITS = {
    "unheld_jobs": "jobs that run without a claim",
    "idle_claims": "claims that hold jobs which do not run",
    "jobs_without_messages": "jobs whose messages are not there",
    "work_of_no_queue": "messages that no queue takes, and that are in no inbox",
}

#: The age from which a lost claim is history, in milliseconds: a day.
_RECENT_MS = 86_400_000

#: How far a clock that is slewed may be from another one, in milliseconds.
_SLEW_MS = 60_000

#: Among how many of a queue's newest claims lost ones are looked for.
_MAX_WALKED = 10_000


def checks_of_work(bus: Bus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of what is read and worked on; the full ones look at every job."""
    return {
        "work": lambda: _work(bus, full),
        "claims": lambda: _claims(bus),
        "dead letters": lambda: _dead_letters(bus),
        "parked": lambda: _parked(bus),
        "clock": lambda: _clock(bus),
    }


def _clock(bus: Bus) -> Finding:
    """Look for times that are still to come: a clock was ahead when they were stored."""
    last = bus.log.readable(bus.log.newest_seq())
    newest = {
        "claim or lease": newest_ms(bus),
        "message": 0 if last is None else last.ts_ms,
        "heartbeat": max((beat.ts_ms for beat in bus.heartbeats.list()), default=0),
    }
    now_ms = bus.now_ms()
    ahead = [f"{what} {format_ts(at)}" for what, at in newest.items() if at > now_ms + _SLEW_MS]
    if ahead:
        return warn(
            f"the clock shows {format_ts(now_ms)}, and there are of later: {', '.join(ahead)}",
            "if the clock is right now, it was ahead: workers that begin bring retries and leases"
            " back; see 'bus job list' for jobs that senders have delayed by it",
        )
    return ok("nothing is of a time that is still to come")


def _work(bus: Bus, full: bool) -> Finding:
    """Look for jobs and messages that no worker or reader would get, and claims without jobs."""
    if not full:
        return ok("--full compares messages, jobs and claims")
    found = [
        f"{what}: {ranges(seqs)}"
        for statement, what in _MISFITS.items()
        if (seqs := seqs_of(bus, statement))
    ]
    if found:
        return bad("; ".join(found), "'bus doctor --repair' puts it right")
    return ok("messages, jobs and claims fit together")


def _claims(bus: Bus) -> Finding:
    """Look for workers that died, or took longer than their lease."""
    views, since_ms = Views.of(bus), bus.now_ms() - _RECENT_MS
    lost = {
        queue.name: views.count_lost_claims(queue, _MAX_WALKED, since_ms)
        for queue in Queues(bus).list()
    }
    found = {name: count for name, count in lost.items() if count}
    if found:
        which = ", ".join(f"{count} of {name}" for name, count in found.items())
        return warn(f"lost within a day: {which}", "see 'bus queue show', and what the workers say")
    return ok(f"none lost within a day; queues: {len(lost)}")


def _dead_letters(bus: Bus) -> Finding:
    jobs = Jobs.of(bus)
    dead = {queue.name: jobs.counts(queue)[DEAD] for queue in Queues(bus).list()}
    found = {name: count for name, count in dead.items() if count}
    if found:
        which = ", ".join(f"{count} of {name}" for name, count in found.items())
        return warn(which, "see 'bus dead list'; then requeue or drop them")
    return ok("none")


def _parked(bus: Bus) -> Finding:
    found = Deliveries.of(bus).parked()
    if found:
        agents = ", ".join(sorted({each.agent for each in found}))
        return warn(f"messages of {agents}: {len(found)}", "see 'bus parked'")
    return ok("none")
