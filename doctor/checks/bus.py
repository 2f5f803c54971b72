"""Checks of a bus that can be opened: its content, its queues, and its tasks."""

from __future__ import annotations

import os
from itertools import islice

from ...bus.errors import SegmentMissing
from ...bus.heartbeats import Liveness
from ...bus.search.search import Search
from ...bus.signing import Keyring
from ...git.repository import GitFailed
from ...schema.errors import BlobAltered, BlobMissing, InvalidInput, TimedOut
from ...schema.findings import bad, ok, warn
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts
from ...schema.queries import Queries, file_of, fits_pattern, is_too_wide
from ...schema.sqlite.settings import age_of_backup
from ...subscribers.inboxes.failed_deliveries import Deliveries
from ...subscribers.jobs.jobs import DEAD, Jobs
from ...subscribers.queues.clock_back import newest_ms
from ...subscribers.queues.queues import Queues
from ...subscribers.views import Views
from ...tasks.board.proof import difference, messages_of_tasks, task_of
from ...tasks.finish import leftovers_of, not_looked_into
from ...tasks.records.task import lease_of_target
from ...tasks.records.task_table import Landings, TaskTable
from ..recovery.salvage import in_words, ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.findings import Finding
    from ...tasks.board.proof import TableDifference

# The statements that find and mend contradictions between messages, jobs and claims.

#: Statements that put jobs and claims right, and that find those to change.
MENDING = Queries(beside=__file__, file="../work.sql")

#: Whether no queue has a message, nor will take it in. A queue of which SQL can't tell what it
#: takes hides nothing, and a message that both it and an inbox have is not lost.
_IS_OF_NO_QUEUE = f"""NOT EXISTS (SELECT 1 FROM queues
  WHERE EXISTS (SELECT 1 FROM jobs WHERE queue_id = queues.id AND jobs.seq = messages.seq)
     OR (filled_seq < messages.seq AND (to_agent IS NULL OR addressed IN ('*', to_agent))
         AND {fits_pattern("type", "pattern")} AND NOT {is_too_wide("pattern")}))"""
MENDING |= {
    name: text.replace("{is_of_no_queue}", _IS_OF_NO_QUEUE) for name, text in MENDING.items()
}


def seqs_of(bus: LocalBus, statement: str, *values: object) -> list[Any]:
    """Return the first column of what a statement of `work.sql` finds, or has changed."""
    return [row[0] for row in file_of(bus).rows(MENDING[statement], values)]


#: How many blobs are looked for, unless all of them are to be read.
_QUICK_BLOBS = 20_000

#: How many of the newest messages are looked at, unless all are.
_QUICK_MESSAGES = 10_000

#: With fewer numbers left than this, a bus is soon to be replaced.
_MANY_NUMBERS = 1_000_000_000

#: A heart that stopped longer ago than this is history, in seconds: a day.
_RECENT_S = 86_400.0

#: How many names a line has.
_NAMED = 5


def checks_of_bus(bus: LocalBus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of the log and of what belongs to it.

    Args:
        bus: an open bus.
        full: read everything, however long it takes.
    """
    return {
        "settings": lambda: _settings(bus),
        "messages": lambda: _messages(bus, full),
        "blobs": lambda: _blobs(bus, full),
        "archive": lambda: _archive(bus, full),
        "chain": lambda: _chain(bus),
        "keys": _keys,
        "search": lambda: _search(bus, full),
        "hearts": lambda: _hearts(bus),
    }


def _settings(bus: LocalBus) -> Finding:
    file_of(bus).look_at_settings()  # an examination opens any file, and asks it nothing
    durability = f"durability is {bus.settings.durability()}"
    made_at_ms = bus.backup_made_at_ms
    if made_at_ms is None:
        return ok(durability)
    age = age_of_backup(made_at_ms, bus.now_ms())
    return warn(f"{durability}; this is a backup, {age}", "'bus restore' takes it into use")


def _messages(bus: LocalBus, full: bool) -> Finding:
    """Look at the numbers and the times of messages, which are never changed."""
    newest = bus.log.newest_seq()
    if newest > MAX_SEQ - _MANY_NUMBERS:
        text = f"the newest is {newest}, and numbers end at {MAX_SEQ}"
        return bad(text, "make a new bus, and import bus.jsonl there, while there are numbers left")
    after = 0 if full else newest - _QUICK_MESSAGES
    if wrong := bus.log.wrong_times(after):
        text = f"their times are none, or to come: {ranges(wrong)}; they are archived by place"
        return warn(text, "look for their sender: ts_ms is in milliseconds since 1970")
    if not full:
        return ok(f"the newest is {newest:,}; --full looks for numbers without a message")
    if gaps := bus.log.gaps():
        count = sum(last - first + 1 for first, last in gaps)
        text = f"{count:,} numbers have no message, which is possibly lost: {in_words(gaps)}"
        return warn(text, "look for them in a backup, unless another program has left them out")
    return ok(f"the newest is {newest:,}; none is missing")


def _blobs(bus: LocalBus, full: bool) -> Finding:
    named = bus.log.named_blobs()
    looked_at = 0
    lacking = []
    for ref in named if full else islice(named, _QUICK_BLOBS):
        looked_at += 1
        if not _is_there(bus, ref, full):
            lacking.append(ref)
    if lacking:
        what = "missing or altered" if full else "missing"
        text = f"{len(lacking)} of {looked_at} are {what}: {_names(lacking)}"
        return bad(text, "copy them from another clone; 'bus doctor --repair' does from a backup")
    if full:
        return ok(f"{looked_at} are named, and whole")
    more = ", the first of them" if looked_at == _QUICK_BLOBS else ""
    return ok(f"{looked_at} are named, and there{more}; --full reads them")


def _is_there(bus: LocalBus, ref: str, full: bool) -> bool:
    if not full:
        return ref in bus.blobs
    try:
        bus.blobs.verify(ref)
    except (BlobMissing, BlobAltered, InvalidInput):
        return False
    return True


def _archive(bus: LocalBus, full: bool) -> Finding:
    segments = bus.archive.segments()
    harmed = []
    for segment in segments:
        path = bus.archive.path(segment)
        if full:
            state = bus.archive.state_of(segment)
            if state == "ok" and bus.archive.lacks_entries(segment):
                state = "whole, but not all that is in it is known"
        elif not os.path.exists(path):
            state = "missing"
        else:
            state = "ok" if os.stat(path).st_size == segment.bytes else "altered"
        if state != "ok":
            harmed.append(f"{os.path.basename(path)} is {state}")
    if harmed:
        return bad(_names(harmed), "copy it from a backup, or 'bus doctor --repair'")
    discarded = "".join(f"; {period}" for period in bus.archive.discarded())
    if files := bus.archive.discarded_files():
        text = f"files of discarded messages are still there: {_names(files)}{discarded}"
        return warn(text, "'bus archive --discard --before 1' deletes them")
    if not segments:
        return ok(f"nothing is archived{discarded}")
    how = "whole" if full else "there; --full reads them"
    return ok(f"segments up to {segments[-1].last_seq}: {len(segments)}, all {how}{discarded}")


def _chain(bus: LocalBus) -> Finding:
    head = bus.chain.head()
    if not bus.chain.is_on():
        return ok("off" if head is None else f"off since {head.seq}; 'bus verify' checks it")
    behind = bus.chain.behind()
    return ok(f"on, {behind:,} behind; 'bus verify' checks it")


def _keys() -> Finding:
    keyring = Keyring()
    agents = keyring.agents()
    for agent in agents:
        keyring.of(agent)  # raises where it can't be used
    if not agents:
        return ok("none; no agent here signs")
    return ok(f"agents with keys in {keyring.directory}: {len(agents)}")


def _search(bus: LocalBus, full: bool) -> Finding:
    if not os.path.exists(bus.layout.search):
        return ok("no index yet; the first search makes it")
    search = Search(bus)
    if harm := search.damage(full=full):
        return bad(
            f"search.db is damaged ({harm}); no message is", "'bus doctor --repair' makes it again"
        )
    behind = search.behind()
    return ok(f"messages to index at the next search: {behind:,}")


def _hearts(bus: LocalBus) -> Finding:
    beats = bus.heartbeats.list()
    silent = [
        beat
        for beat in beats
        if beat.liveness in (Liveness.STALE, Liveness.DEAD) and beat.age_s < _RECENT_S
    ]
    if silent:
        who = _names([f"{beat.agent} ({beat.age_s:,.0f} s ago)" for beat in silent])
        return warn(f"stopped without a word: {who}", "see what became of them")
    alive = sum(beat.liveness in (Liveness.ALIVE, Liveness.WARN) for beat in beats)
    return ok(f"{alive} beat")


def _names(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


# Checks of what is read: queues and their claims, dead letters, parked messages.

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


def checks_of_work(bus: LocalBus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of what is read and worked on; the full ones look at every job."""
    return {
        "work": lambda: _work(bus, full),
        "claims": lambda: _claims(bus),
        "dead letters": lambda: _dead_letters(bus),
        "parked": lambda: _parked(bus),
        "clock": lambda: _clock(bus),
    }


def _clock(bus: LocalBus) -> Finding:
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


def _work(bus: LocalBus, full: bool) -> Finding:
    """Look for jobs and messages that no worker or reader would get, and claims without jobs."""
    if not full:
        return ok("--full compares messages, jobs and claims")
    misfits = [
        f"{what}: {ranges(seqs)}"
        for statement, what in _MISFITS.items()
        if (seqs := seqs_of(bus, statement))
    ]
    if misfits:
        return bad("; ".join(misfits), "'bus doctor --repair' puts it right")
    return ok("messages, jobs and claims fit together")


def _claims(bus: LocalBus) -> Finding:
    """Look for workers that died, or took longer than their lease."""
    views, since_ms = Views.of(bus), bus.now_ms() - _RECENT_MS
    lost = {
        queue.name: views.count_lost_claims(queue, _MAX_WALKED, since_ms)
        for queue in Queues(bus).list()
    }
    counts = {name: count for name, count in lost.items() if count}
    if counts:
        which = ", ".join(f"{count} of {name}" for name, count in counts.items())
        return warn(f"lost within a day: {which}", "see 'bus queue show', and what the workers say")
    return ok(f"none lost within a day; queues: {len(lost)}")


def _dead_letters(bus: LocalBus) -> Finding:
    jobs = Jobs.of(bus)
    dead = {queue.name: jobs.counts(queue)[DEAD] for queue in Queues(bus).list()}
    counts = {name: count for name, count in dead.items() if count}
    if counts:
        which = ", ".join(f"{count} of {name}" for name, count in counts.items())
        return warn(which, "see 'bus dead list'; then requeue or drop them")
    return ok("none")


def _parked(bus: LocalBus) -> Finding:
    parked = Deliveries.of(bus).parked()
    if parked:
        agents = ", ".join(sorted({delivery.agent for delivery in parked}))
        return warn(f"messages of {agents}: {len(parked)}", "see 'bus parked'")
    return ok("none")


# Checks of tasks: their messages against the table, lost holders, questions, landings.

#: How many tasks a finding names.
_NAMED_TASKS = 10


def checks_of_tasks(bus: LocalBus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of tasks; the full ones read all their messages."""
    return {
        "tasks": lambda: _task_messages(bus, full),
        "task holders": lambda: _holders(bus),
        "task trees": lambda: _trees(bus),
        "landings": lambda: _landings(bus),
    }


def _task_messages(bus: LocalBus, full: bool) -> Finding:
    """Compare the table of tasks with the messages; rows are never changed to match them."""
    if not full:
        return ok("--full compares tasks with their messages")
    if bus.archive.discarded():
        return ok("not compared with their messages, of which some may be discarded")
    try:
        differences = difference(bus)
    except SegmentMissing:
        if not TaskTable.of(bus).names():
            return ok("none")
        return warn("not compared with their messages: not all can be read", "see the archive")
    complaints = [
        *_lost(bus, differences),
        *_unproven(bus),
        *_differing(bus, differences),
        *_foreign(differences),
    ]
    if differences.unknown:
        complaints.append(
            (f"the log lacks messages of {_named(list(differences.unknown))}", "look at them")
        )
    if complaints:
        return warn("; ".join(text for text, _ in complaints), complaints[0][1])
    return ok(f"all add up: {differences.count}")


def _lost(bus: LocalBus, differences: TableDifference) -> Iterator[tuple[str, str]]:
    """Yield what the log says of tasks without a row, and who sent it."""
    if differences.lost:
        names = {task.task for task in differences.lost}
        yield (
            f"only messages tell of {_named(sorted(names))}, from {_senders(bus, names)}:"
            " their rows are lost, or never were",
            "see 'bus read --type state_change'; --repair keeps such tasks as unproven, for a"
            " person to confirm or cancel",
        )


def _senders(bus: LocalBus, names: Collection[str]) -> str:
    """Return who sent messages about some tasks."""
    return _named(
        sorted(
            {message.from_agent for message in messages_of_tasks(bus) if task_of(message) in names}
        )
    )


def _differing(bus: LocalBus, differences: TableDifference) -> Iterator[tuple[str, str]]:
    """Yield the tasks of which row and log differ; nobody can tell which messages are forged."""
    if differences.differs:
        by = _senders(bus, differences.differs)
        yield (
            f"messages, from {by}, say something else than the rows of"
            f" {_named(list(differences.differs))}, which stand",
            "compare 'bus task log' and 'bus task show'",
        )


def _unproven(bus: LocalBus) -> Iterator[tuple[str, str]]:
    """Yield the tasks that a repair made of messages, and that nobody has confirmed."""
    names = [task.task for task in TaskTable.of(bus).find() if task.unproven]
    if names:
        text = f"unproven, so that nothing goes on with them: {_named(names)}"
        yield text, "'bus task confirm' shows what would be believed; or 'bus task cancel'"


def _foreign(differences: TableDifference) -> Iterator[tuple[str, str]]:
    """Yield the messages that are no step of a task, and who sent them."""
    if differences.foreign:
        seqs = ranges([message.seq for message in differences.foreign])
        by = _named(sorted({message.from_agent for message in differences.foreign}))
        yield (
            f"messages that are no step of a task, and change none: {seqs}, from {by}",
            "ask them to use 'bus task'",
        )


def _holders(bus: LocalBus) -> Finding:
    """Look for tasks whose holder was lost, and for questions whose time is over."""
    now_ms = bus.now_ms()
    names_of_leases = {lease.name for lease in bus.leases.list()}
    live = TaskTable.of(bus).live()
    lost = [
        task.task
        for task in live
        if task.state == "WORKING"
        and task.blocked is None
        and task.lease_name not in names_of_leases
    ]
    overdue = [
        task.task
        for task in live
        if task.blocked is not None and (task.blocked.deadline_ms or now_ms + 1) <= now_ms
    ]
    complaints = [
        f"{what}: {_named(names)}"
        for what, names in (("lost by their holders", lost), ("unanswered in time", overdue))
        if names
    ]
    if complaints:
        return warn("; ".join(complaints), "'bus task settle' ends these attempts")
    return ok(f"none lost, no question overdue; live tasks: {len(live)}")


def _trees(bus: LocalBus) -> Finding:
    """Look for work trees, branches and locks that tasks left behind."""
    try:
        leftovers = leftovers_of(bus)
    except (GitFailed, TimedOut) as error:
        return warn(f"not looked at: {error}", "look there, then try again")
    if not leftovers:
        elsewhere = not_looked_into(bus)
        aside = f"; not looked into: {_named(elsewhere)}" if elsewhere else ""
        return ok(f"nothing left behind{aside}")
    return warn(
        "; ".join(leftover.says for leftover in leftovers[:_NAMED_TASKS]), _more(len(leftovers))
    )


def _more(count: int) -> str:
    return (
        f"there are {count}" if count > _NAMED_TASKS else "'bus task clean' keeps what it removes"
    )


def _landings(bus: LocalBus) -> Finding:
    """Look for commits that were about to land when their integrator ended."""
    names_of_leases = {lease.name for lease in bus.leases.list()}
    undecided = Landings.of(bus).undecided()
    orphans = [
        f"{landing.task or landing.branch} on {landing.target}"
        for landing in undecided
        if landing.state == "intended"
        and lease_of_target(landing.repository, landing.target) not in names_of_leases
    ]
    if orphans:
        return warn(f"intended, and not decided: {_named(orphans)}", "'bus integrate' decides it")
    return ok(f"none left undecided; under way or proposed: {len(undecided)}")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_TASKS} more" if len(names) > _NAMED_TASKS else ""
    return ", ".join(names[:_NAMED_TASKS]) + more
