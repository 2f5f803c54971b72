"""The board: what every worker does, since when and where, and what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.one_look import one_look
from ...git.repository import GitFailed
from ...schema.errors import InvalidInput
from ...schema.message.times import format_ts
from ..records.task_table import TaskTable
from ..steps.task_jobs import TaskJobs
from .forecast import forecast_of_tasks, heads_of
from .lookout import Lookout
from .past import fold_at
from .reserved import changed_by, compare
from .waiting import (
    Row,
    Waiting,
    of_approved,
    of_clash,
    of_dependencies,
    of_failed,
    of_jobs,
    of_queues,
    of_reserved,
    of_tasks,
    proposals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..records.task import Task
    from ..steps.task_jobs import TaskJob
    from .forecast import Clash
    from .reserved import Changed, Reserved

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
        changes: the newest messages that tell of heartbeats and of changes of state, the newest
            first.
        problem: why there are no conflicts and no reserved files, or None.
    """

    at_ms: int
    seq: int
    rows: tuple[Row, ...]
    waiting: tuple[Waiting, ...]
    clashes: tuple[Clash, ...] = ()
    reserved: tuple[Reserved, ...] = ()
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
            "waiting": [each.record() for each in self.waiting],
            "conflicts": [each.record() for each in self.clashes],
            "reserved": [each.record() for each in self.reserved],
            "changes": [_change_record(message) for message in self.changes],
            "problem": self.problem,
        }


#: Why a board of the past has no conflicts.
_OF_THE_PAST = "of the past, what branches and reservations were then is not known"


class Boards:
    """The boards of a bus: the present one, and those of the past.

    It keeps what git said of the branches until one of them moves.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._heads: object = None
        self._changed: Changed = {}

    @one_look()
    def now(self) -> Board:
        """Return the present board."""
        bus = self._bus
        seq, now_ms = bus.log.newest_seq(), bus.now_ms()
        tasks = TaskTable.of(bus).live()
        held = {lease.name: lease for lease in bus.leases.list()}
        beats = {beat.agent: beat for beat in bus.heartbeats.list()}
        rows = [Row(task, held.get(task.lease_name), beats.get(task.worker)) for task in tasks]
        clashes, reserved, problem = self._of_git(tasks)
        jobs = TaskJobs(bus)
        without = jobs.without_task()
        waiting = [
            *of_tasks(rows, is_now=True),
            *of_approved(bus, rows, held),
            *of_dependencies(bus, rows, without),
            *of_jobs(rows, without, jobs.live),
            *of_failed(bus),
            *of_queues(bus),
            *proposals(bus),
            *(of_clash(clash) for clash in clashes),
            *(of_reserved(each) for each in reserved),
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
            at_ms: the moment; None: that of the newest message of it.

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
        rows = tuple(Row(task, None, None) for task in tasks)
        changes = tuple(newest_changes(self._bus, seq))
        message = self._bus.log.readable(seq) if seq else None
        if at_ms is None:
            newest_ms = 0 if message is None else message.ts_ms
            at_ms = max([newest_ms, *(each.ts_ms for each in changes)])
        waiting = tuple(of_tasks(rows, is_now=False))
        return Board(at_ms, seq, rows, waiting, changes=changes, problem=_OF_THE_PAST)

    def _of_git(self, tasks: Sequence[Task]) -> tuple[list[Clash], list[Reserved], str | None]:
        try:
            lookout = Lookout(self._bus)
            heads = (heads_of(tasks, lookout), [(task.task, task.target) for task in tasks])
            if heads != self._heads:
                self._heads, self._changed = heads, changed_by(tasks, lookout)
            clashes = forecast_of_tasks(self._bus, lookout)
            return clashes, compare(self._bus, tasks, self._changed), lookout.problem()
        except GitFailed as error:
            return [], [], str(error)


def newest_changes(bus: Bus, upto_seq: int, count: int = MAX_CHANGES) -> list[Message]:
    """Return the newest messages of the types `heartbeat` and `state_change`, the newest first."""
    found = [
        message
        for type in ("heartbeat", "state_change")
        for message in bus.log.newest(count, before_seq=upto_seq + 1, type=type)
    ]
    return sorted(found, key=lambda message: -message.seq)[:count]


def _change_record(message: Message) -> dict[str, Any]:
    return {
        "seq": message.seq,
        "at": format_ts(message.ts_ms),
        "from": message.from_agent,
        "type": message.type,
        "payload": message.payload if message.payload_ref is None else None,
    }
