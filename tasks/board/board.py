"""The board: what every worker does, since when and where, and what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from ...git.limited import one_look
from ...git.repository import GitFailed
from ...schema.errors import InvalidInput
from ...schema.message.times import format_ts
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.queues.job_control import DeadLetters
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.views import Views
from ..records.task import lease_of_target
from ..records.task_table import Landings, TaskTable
from ..steps.messages import COMPLETIONS, QUEUES
from ..steps.planning import STUCK, TaskJobs
from .forecast import TaskRepositories, changed_by, compare, forecast_of_tasks, heads_of
from .proof import fold_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from ...bus.heartbeats import Heartbeat
    from ...bus.leases import Lease
    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ..records.task import Task, TaskState
    from ..steps.planning import TaskJob
    from .forecast import Changed, Clash, ReservedChange

    #: The kinds of what waits for a person.
    Kind = Literal[
        "question",
        "review",
        "lost",
        "paused",
        "proposal",
        "approved",
        "failed",
        "dead job",
        "dependency",
        "dead completion",
        "unproven",
        "conflict",
        "reserved",
    ]

# Things that wait for a person: questions, reviews, and all that goes on only by an act of one.

#: How many dead completions, and how many tasks that failed for good, are looked at.
_MAX_DEAD = 100


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A live task, and what is known of its worker.

    Attributes:
        task: the task.
        held: the lease under which it is held, or None.
        beat: the last beat of its worker, or None.
    """

    task: Task
    held: Lease | None
    beat: Heartbeat | None

    def record(self, now_ms: int) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            **self.task.record(),
            "since": format_ts(self.task.changed_at_ms),
            "since_s": round(max(0, now_ms - self.task.changed_at_ms) / 1000, 1),
            "held_until": None if self.held is None else format_ts(self.held.until_ms),
            "heartbeat": None if self.beat is None else self.beat.record(),
        }


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """Something that waits for a person.

    Attributes:
        kind: what it is.
        task: the name of the task, or None.
        by: the agent that is to decide; None: anybody.
        text: more, for people.
        since_ms: since when, in epoch milliseconds; None: not known.
    """

    kind: Kind
    task: str | None
    by: str | None
    text: str
    since_ms: int | None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        since = None if self.since_ms is None else format_ts(self.since_ms)
        return {
            "kind": self.kind,
            "task": self.task,
            "for": self.by,
            "text": self.text,
            "since": since,
        }


def of_tasks(rows: Sequence[TaskRow], *, is_now: bool) -> Iterator[WaitingItem]:
    """Yield what waits for a person in live tasks."""
    for row in rows:
        task = row.task
        if task.unproven:
            text = f"its row was lost, and made of messages; 'bus task confirm {task.task}'"
            yield WaitingItem("unproven", task.task, None, text, task.changed_at_ms)
        elif task.blocked is not None:
            deadline_ms = task.blocked.deadline_ms
            deadline = "" if deadline_ms is None else f" (until {format_ts(deadline_ms)})"
            text = task.blocked.question + deadline
            yield WaitingItem("question", task.task, task.requester, text, task.blocked.since_ms)
        elif task.state == "IN_REVIEW":
            text = f"{task.branch} at {(task.head or '')[:12]}"
            by = task.reviewer or task.requester
            yield WaitingItem("review", task.task, by, text, task.changed_at_ms)
        elif is_now and task.state == "WORKING" and row.held is None:
            text = f"the lease of {task.worker} has run out; see 'bus task settle'"
            yield WaitingItem("lost", task.task, None, text, task.changed_at_ms)


def of_queues(bus: LocalBus) -> Iterator[WaitingItem]:
    """Yield the queues of tasks that are held, and dead completions."""
    infos = {info.name: info for info in Queues(bus).list()}
    for name in QUEUES:
        if name in infos and infos[name].paused_at_ms is not None:
            text = f"nothing is taken from queue {name}; see 'bus queue resume'"
            yield WaitingItem("paused", None, None, text, infos[name].paused_at_ms)
    if COMPLETIONS in infos:
        yield from _dead_completions(bus)


def _dead_completions(bus: LocalBus) -> Iterator[WaitingItem]:
    dead = DeadLetters(Queue.open(bus, COMPLETIONS)).find()
    for job in islice(dead, _MAX_DEAD):
        task = _task_of_entry(bus, job.seq)
        text = f"seq {job.seq}: {job.error or 'it could not be integrated'}; see 'bus dead list'"
        yield WaitingItem("dead completion", task, None, text, job.ended_at_ms)


def proposals(bus: LocalBus) -> Iterator[WaitingItem]:
    """Yield the landings that were proposed, and are not decided."""
    for landing in Landings.of(bus).undecided():
        if landing.state == "proposed":
            text = f"{landing.candidate[:12]} was proposed for {landing.target}"
            yield WaitingItem("proposal", landing.task, None, text, landing.intended_at_ms)


def of_clash(clash: Clash) -> WaitingItem:
    """Return the waiting item of a pair that would not merge."""
    if clash.not_known is not None:
        files = "".join(f" {file}" for file in clash.files)
        text = f"not known whether it would merge with {clash.b}:{files}: {clash.not_known}"
    else:
        files = ", ".join(clash.files) or "no common ancestor"
        text = f"would not merge with {clash.b}: {files}"
    return WaitingItem("conflict", clash.a, None, text, None)


def of_reserved(reserved: ReservedChange) -> WaitingItem:
    """Return the waiting item of a changed file that another agent has reserved."""
    reservation = reserved.conflict.held
    until = format_ts(reservation.until_ms)
    text = f"changes {reserved.conflict.path}, reserved by {reservation.agent} until {until}"
    return WaitingItem(
        "reserved", reserved.task, reservation.agent, text, reservation.reserved_at_ms
    )


def of_jobs(
    rows: Sequence[TaskRow], jobs: Sequence[TaskJob], live: Collection[str]
) -> Iterator[WaitingItem]:
    """Yield the jobs that nobody takes any more: dead ones, and those that tasks have lost.

    Args:
        rows: the live tasks.
        jobs: those without a task.
        live: the tasks of jobs that wait or run.
    """
    for job in jobs:
        if job.state in STUCK:
            yield WaitingItem("dead job", job.task, job.requester, job.note, job.since_ms)
    for row in rows:
        task = row.task
        is_waiting = task.state == "ASSIGNED" and row.held is None and not task.unproven
        if is_waiting and task.from_queue and task.task not in live:
            text = (
                f"no job of it is left to take; see 'bus dead list', or start {task.task} by hand"
            )
            yield WaitingItem("dead job", task.task, task.requester, text, task.changed_at_ms)


def of_approved(
    bus: LocalBus, rows: Sequence[TaskRow], leases: Mapping[str, Lease]
) -> Iterator[WaitingItem]:
    """Yield the approved tasks that no integrator works on, of targets that none holds."""
    entries = _entries_in_hand(bus)
    for row in rows:
        task = row.task
        name = lease_of_target(task.repository, task.target)
        is_free = task.state == "APPROVED" and not task.unproven and name not in leases
        if is_free and task.task not in entries:
            text = f"no integrator works on {task.target}: run 'bus integrate --into {task.target}'"
            yield WaitingItem("approved", task.task, None, text, task.changed_at_ms)


def _entries_in_hand(bus: LocalBus) -> set[str | None]:
    """Return the tasks whose entries are claimed, dead or proposed, which is reported elsewhere."""
    tasks = {landing.task for landing in Landings.of(bus).undecided()}
    try:
        queue = Queue.open(bus, COMPLETIONS)
    except QueueNotFound:
        return tasks
    claimed = [claim.seq for claim in Views.of(bus).active_claims(queue.info)]
    dead = (job.seq for job in islice(DeadLetters(queue).find(), _MAX_DEAD))
    return tasks | {_task_of_entry(bus, seq) for seq in (*claimed, *dead)}


def _task_of_entry(bus: LocalBus, seq: int) -> str | None:
    message = bus.log.readable(seq)
    payload = None if message is None else message.payload
    named = payload.get("task") if isinstance(payload, dict) else None
    return named if isinstance(named, str) else None


def of_failed(bus: LocalBus) -> Iterator[WaitingItem]:
    """Yield the newest tasks that failed for good, until they are cleaned."""
    states: tuple[TaskState, ...] = ("FAILED",)
    failed = [task for task in TaskTable.of(bus).find(states=states) if not task.cleaned_at_ms]
    for task in failed[-_MAX_DEAD:]:
        text = f"{task.reason or 'it failed for good'}; 'bus task clean {task.task}' ends this"
        yield WaitingItem("failed", task.task, task.requester, text, task.changed_at_ms)


def of_dependencies(
    bus: LocalBus, rows: Sequence[TaskRow], jobs: Sequence[TaskJob]
) -> Iterator[WaitingItem]:
    """Yield what can never begin, since something that it depends on will not land."""
    table = TaskTable.of(bus)
    waiting: list[Task | TaskJob] = [row.task for row in rows if row.task.state == "ASSIGNED"]
    waiting += [job for job in jobs if job.state not in STUCK]
    for dependent in waiting:
        for name in dependent.depends_on:
            task = table.get(name)
            if task is not None and task.state in ("CANCELLED", "FAILED"):
                text = f"depends on {name}, which is {task.state}: cancel it, or spawn another"
                yield WaitingItem(
                    "dependency", dependent.task, dependent.requester, text, task.changed_at_ms
                )


#: How many of the newest heartbeats and changes of state are shown.
MAX_CHANGES = 100


@dataclass(frozen=True, slots=True)
class Board:
    """All live tasks at one moment.

    Attributes:
        at_ms: the moment, in epoch milliseconds.
        seq: the newest message of it.
        rows: the tasks, the oldest first.
        waiting: what waits for a person.
        clashes: the pairs that would not merge; none of the past are known.
        reserved: the changed files that others have reserved; none of the past are known.
        jobs: those that have no task yet, the oldest first; none of the past are known.
        changes: the newest messages of heartbeats and of changes of state, the newest first.
        problem: why there are no conflicts and no reserved files, or None.
    """

    at_ms: int
    seq: int
    rows: tuple[TaskRow, ...]
    waiting: tuple[WaitingItem, ...]
    clashes: tuple[Clash, ...] = ()
    reserved: tuple[ReservedChange, ...] = ()
    jobs: tuple[TaskJob, ...] = ()
    changes: tuple[Message, ...] = ()
    problem: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "at": format_ts(self.at_ms),
            "seq": self.seq,
            "tasks": [row.record(self.at_ms) for row in self.rows],
            "jobs": [job.record() for job in self.jobs],
            "waiting": [entry.record() for entry in self.waiting],
            "conflicts": [clash.record() for clash in self.clashes],
            "reserved": [file.record() for file in self.reserved],
            "changes": [_change_record(message) for message in self.changes],
            "problem": self.problem,
        }


#: Why a board of the past has no conflicts.
_OF_THE_PAST = "of the past, what branches and reservations were then is not known"


class Boards:
    """The boards of a bus: the present one, and those of the past.

    Results of git are cached until a branch moves.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._heads: object = None
        self._changed: Changed = {}

    @one_look()
    def now(self) -> Board:
        """Return the present board."""
        bus = self._bus
        seq, now_ms = bus.log.newest_seq(), bus.now_ms()
        tasks = TaskTable.of(bus).live()
        leases = {lease.name: lease for lease in bus.leases.list()}
        beats = {beat.agent: beat for beat in bus.heartbeats.list()}
        rows = [
            TaskRow(task, leases.get(task.lease_name), beats.get(task.worker)) for task in tasks
        ]
        clashes, reserved, problem = self._of_git(tasks)
        jobs = TaskJobs(bus)
        without = jobs.without_task()
        waiting = [
            *of_tasks(rows, is_now=True),
            *of_approved(bus, rows, leases),
            *of_dependencies(bus, rows, without),
            *of_jobs(rows, without, jobs.live),
            *of_failed(bus),
            *of_queues(bus),
            *proposals(bus),
            *(of_clash(clash) for clash in clashes),
            *(of_reserved(file) for file in reserved),
        ]
        return Board(
            *(now_ms, seq, tuple(rows), tuple(waiting), tuple(clashes), tuple(reserved)),
            jobs=tuple(without),
            changes=tuple(newest_changes(bus, seq)),
            problem=problem,
        )

    def at(self, seq: int, at_ms: int | None = None) -> Board:
        """Return the board as it was when a message was the newest.

        Heartbeats, leases and forecasts of the past are not known, as its `problem` says.

        Args:
            seq: of the message; 0 is before the first.
            at_ms: the moment; None: the time of that message.

        Raises:
            InvalidInput: there is no such message yet.
        """
        newest = self._bus.log.newest_seq()
        if not 0 <= seq <= newest:
            raise InvalidInput(f"the log ends at seq {newest}: there is no {seq} yet")
        here = set(TaskTable.of(self._bus).names())  # not those of an imported log
        folded = fold_at(self._bus, seq).tasks.values()
        tasks = [task for task in folded if task.is_live and task.task in here]
        tasks.sort(key=lambda task: (task.created_at_ms, task.task))
        rows = tuple(TaskRow(task, None, None) for task in tasks)
        changes = tuple(newest_changes(self._bus, seq))
        message = self._bus.log.readable(seq) if seq else None
        if at_ms is None:
            newest_ms = 0 if message is None else message.ts_ms
            at_ms = max([newest_ms, *(change.ts_ms for change in changes)])
        waiting = tuple(of_tasks(rows, is_now=False))
        return Board(at_ms, seq, rows, waiting, changes=changes, problem=_OF_THE_PAST)

    def _of_git(
        self, tasks: Sequence[Task]
    ) -> tuple[list[Clash], list[ReservedChange], str | None]:
        try:
            lookout = TaskRepositories(self._bus)
            heads = (heads_of(tasks, lookout), [(task.task, task.target) for task in tasks])
            if heads != self._heads:
                self._heads, self._changed = heads, changed_by(tasks, lookout)
            clashes = forecast_of_tasks(self._bus, lookout)
            return clashes, compare(self._bus, tasks, self._changed), lookout.problem()
        except GitFailed as error:
            return [], [], str(error)


def newest_changes(bus: LocalBus, upto_seq: int) -> list[Message]:
    """Return the newest messages of the types `heartbeat` and `state_change`, the newest first."""
    messages = [
        message
        for type in ("heartbeat", "state_change")
        for message in bus.log.newest(MAX_CHANGES, before_seq=upto_seq + 1, type=type)
    ]
    return sorted(messages, key=lambda message: -message.seq)[:MAX_CHANGES]


def _change_record(message: Message) -> dict[str, Any]:
    return {
        "seq": message.seq,
        "at": format_ts(message.ts_ms),
        "from": message.from_agent,
        "type": message.type,
        "payload": message.payload if message.payload_ref is None else None,
    }
