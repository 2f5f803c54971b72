"""The tables of tasks, planned jobs, forecasts and landings."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import orjson

from ...schema.message.canonical_json import decode_stored, encode
from ...schema.message.times import format_ts
from ...schema.queries import Queries, Table
from .task import Blocked, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any, Literal

    from .task import TaskState

    #: `intended`: the target is about to move; `proposed`: somebody else is asked to move it.
    LandingState = Literal["intended", "proposed", "landed", "abandoned"]

    #: Two ids of commits, the lower one first.
    Pair = tuple[str, str]

    #: The files in which a pair conflicts; None: it merges.
    Files = tuple[str, ...] | None

# The statements of tasks, with the columns that several of them share.

_PARTS = {
    "{task}": ", ".join(Task.__slots__),
    "{landing}": (
        "seq, repository, target, task, attempt, branch, head, onto, candidate, tree, patch_id,"
        " checks, state, completion_seq, intended_at_ms, ended_at_ms"
    ),
}

SQL = Queries(beside=__file__, parts=_PARTS)

#: The statements of PushPals' control plane.
CONTROL = Queries(beside=__file__, file="control.sql")

#: The statements of sessions.
SESSIONS = Queries(beside=__file__, file="sessions.sql")

#: The columns, in the order of the statements.
_NAMES = Task.__slots__

#: A number of tasks that no bus has.
_ALL = 1 << 40


class TaskTable(Table):
    """The table `tasks`: a row for each task, with its newest attempt."""

    def get(self, name: str) -> Task | None:
        """Return a task, or None when there is none of this name."""
        row = self._engine.row(SQL["task"], (name,))
        return None if row is None else _task(row)

    def find(
        self,
        *,
        states: Collection[TaskState] | None = None,
        worker: str | None = None,
        since_ms: int = 0,
        limit: int | None = None,
    ) -> list[Task]:
        """Return the tasks in these states, of this worker, made since then; the oldest first."""
        states_json = None if states is None else orjson.dumps(sorted(states)).decode()
        values = (states_json, worker, _ALL if limit is None else limit, since_ms)
        rows = self._engine.rows(SQL["tasks"], values)
        return [_task(row) for row in rows]

    def landed_as(self, commit: str) -> Task | None:
        """Return the task that has landed as a commit, or None."""
        row = self._engine.row(SQL["task_of_commit"], (commit,))
        return None if row is None else _task(row)

    def live(self) -> list[Task]:
        """Return the tasks whose state is not final; the oldest first."""
        return [_task(row) for row in self._engine.rows(SQL["live_tasks"])]

    def unlanded(self, names: Collection[str]) -> list[str]:
        """Return which of these tasks have not landed; an unproven task counts as not landed."""
        rows = self._engine.rows(SQL["unlanded_of"], (orjson.dumps(list(names)).decode(),))
        return [name for (name,) in rows]

    def add(self, task: Task) -> None:
        """Store a new task."""
        self._engine.change(SQL["add_task"], _row(task))

    def put(self, task: Task) -> None:
        """Store a task over a row that can't be read; only for a repair, with the triggers off."""
        self._engine.change(SQL["put_task"], _row(task))

    def names(self) -> list[str]:
        """Return the names of all tasks."""
        return [name for (name,) in self._engine.rows(SQL["task_names"])]

    def change(self, task: Task) -> None:
        """Store what may change in a task.

        Raises:
            RowRefused: it would go back, or skip a state.
        """
        self._engine.change(
            SQL["change_task"],
            (
                *(task.task, task.attempt, task.state, task.worker, task.head, task.token),
                *(task.reason, _blocked_json(task.blocked), task.commit_id),
                *(task.last_seq, task.changed_at_ms),
            ),
        )

    def confirm(self, name: str) -> None:
        """Note that a person believes what the row of an unproven task says."""
        self._engine.change(SQL["confirm_task"], (name,))

    def mark_cleaned(self, name: str) -> None:
        """Note that the work tree of a task is removed."""
        self._engine.change(SQL["task_cleaned"], (name, self._engine.now_ms()))


def _task(row: tuple[Any, ...]) -> Task:
    stored = dict(zip(_NAMES, row, strict=True))
    prompt, blocked = stored["prompt"], stored["blocked"]
    stored["depends_on"] = tuple(orjson.loads(stored["depends_on"]))
    stored["from_queue"], stored["unproven"] = bool(stored["from_queue"]), bool(stored["unproven"])
    stored["prompt"] = None if prompt is None else decode_stored(prompt)
    stored["blocked"] = None if blocked is None else Blocked(**orjson.loads(blocked))
    return Task(**stored)


def _row(task: Task) -> tuple[object, ...]:
    fields = {name: getattr(task, name) for name in _NAMES} | {
        "depends_on": _json(list(task.depends_on)),
        "from_queue": int(task.from_queue),
        "unproven": int(task.unproven),
        "prompt": _json(task.prompt),
        "blocked": _blocked_json(task.blocked),
    }
    return tuple(fields.values())


def _json(value: object) -> str:
    return encode(value).decode()


def _blocked_json(blocked: Blocked | None) -> str | None:
    return None if blocked is None else orjson.dumps(blocked).decode()


# The table of landings, and the record of one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit that was to become the head of a target branch.

    Attributes:
        seq: of the message with the intent.
        repository: the git directory that the work trees of its repository share.
        target: the branch.
        task, attempt: the task and its attempt; None for a branch without a task.
        branch, head: what was to land.
        onto: the commit that the candidate was made onto.
        candidate, tree: the commit that was to become the head, and its files.
        patch_id: git's id of what the candidate changes.
        checks: those that passed on the candidate, or on the last one of its batch: `command`,
            `exit`.
        state: what became of the landing.
        completion_seq: the seq of its entry in the queue.
        intended_at_ms, ended_at_ms: when it began and ended, in epoch milliseconds; None: it is
            open.
    """

    seq: int
    repository: str
    target: str
    task: str | None
    attempt: int | None
    branch: str
    head: str
    onto: str
    candidate: str
    tree: str
    patch_id: str
    checks: tuple[dict[str, Any], ...]
    state: LandingState
    completion_seq: int
    intended_at_ms: int
    ended_at_ms: int | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        ended_ms = fields.pop("ended_at_ms")
        return fields | {
            "checks": list(self.checks),
            "intended": format_ts(fields.pop("intended_at_ms")),
            "ended": None if ended_ms is None else format_ts(ended_ms),
        }


class Landings(Table):
    """The table `landings`: a landing is stored before the target moves."""

    def add(self, landing: Landing) -> None:
        """Store a landing."""
        checks = orjson.dumps(landing.checks).decode()
        row = astuple(replace(landing, checks=()))
        self._engine.change(SQL["add_landing"], (*row[:11], checks, *row[12:]))

    def end(self, seq: int, state: LandingState, at_ms: int | None) -> bool:
        """Store what became of a landing; return whether it was open.

        Args:
            seq: the seq of the landing.
            state: `landed` or `abandoned`; `proposed` leaves it open.
            at_ms: when.
        """
        return bool(self._engine.count_changes(SQL["end_landing"], (seq, state, at_ms)))

    def open(self, repository: str, target: str) -> list[Landing]:
        """Return the landings of a target whose end is not known yet, in order."""
        return _all(self._engine.rows(SQL["open_landings"], (repository, target)))

    def undecided(self) -> list[Landing]:
        """Return the landings of all targets whose end is not known yet."""
        return _all(self._engine.rows(SQL["undecided_landings"]))

    def of_head(self, repository: str, target: str, head: str) -> list[Landing]:
        """Return the landings by which a head was to land, in order."""
        return _all(self._engine.rows(SQL["landings_of_head"], (repository, target, head)))

    def of_commits(self, repository: str, target: str, commits: Iterable[str]) -> list[Landing]:
        """Return the landings that have landed, as one of some commits."""
        commits_json = orjson.dumps(list(commits)).decode()
        rows = self._engine.rows(SQL["landings_of_commits"], (repository, target, commits_json))
        return _all(rows)

    def of_task(self, task: str) -> list[Landing]:
        """Return the landings of a task, in order."""
        return _all(self._engine.rows(SQL["landings_of_task"], (task,)))


def _all(rows: Iterable[tuple[Any, ...]]) -> list[Landing]:
    names = Landing.__slots__
    return [
        Landing(**dict(zip(names, row, strict=True)) | {"checks": tuple(orjson.loads(row[11]))})
        for row in rows
    ]


# The stored forecasts: pairs of commits, and the files in which each conflicts.

#: How long a pair is kept, in milliseconds: a day. A pair that is asked for later is merged again.
_KEPT_MS = 86_400_000


class Forecasts(Table):
    """The table `merge_forecasts`. Commits never change, so its rows stay true."""

    def known(self, pairs: Iterable[Pair]) -> dict[Pair, Files]:
        """Return the stored forecasts of some pairs."""
        pairs_json = orjson.dumps(list(pairs)).decode()
        rows = self._engine.rows(SQL["known_forecasts"], (pairs_json,))
        return {
            (a, b): None if files is None else tuple(orjson.loads(files)) for a, b, files in rows
        }

    def note(self, forecasts: Mapping[Pair, Files]) -> None:
        """Store forecasts of pairs, and drop old ones."""
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.change(SQL["prune_forecasts"], (now_ms - _KEPT_MS,))
            rows = [
                (a, b, None if files is None else encode(list(files)).decode(), now_ms)
                for (a, b), files in forecasts.items()
            ]
            self._engine.run_many(SQL["add_forecast"], rows)


# The table of planned jobs, and the record of one.


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job that waits until the tasks on which it depends have landed.

    Attributes:
        task: the task that it is for.
        payload: of the job.
        depends_on: the tasks that must have landed.
        priority: 0 interactive, 1 normal, 2 background.
        planned_by: the agent that planned it.
        correlation_id: its conversation, or None.
        message_id: of the message that announced it.
        for_worker: the worker that alone may claim it; None: any.
        planned_at_ms: when, in epoch milliseconds.
    """

    task: str
    payload: dict[str, Any]
    depends_on: tuple[str, ...]
    priority: int
    planned_by: str
    correlation_id: str | None
    message_id: str
    for_worker: str | None
    planned_at_ms: int

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "task": self.task,
            "state": "PLANNED",
            "depends_on": list(self.depends_on),
            "priority": self.priority,
            "planned_by": self.planned_by,
            "conversation": self.correlation_id,
            "planned": format_ts(self.planned_at_ms),
        }


class PlannedJobs(Table):
    """The table `planned_jobs`."""

    def list(self) -> list[PlannedJob]:
        """Return all planned jobs, the oldest first."""
        planned = [
            PlannedJob(task, decode_stored(payload), tuple(orjson.loads(depends_on)), *rest)
            for task, payload, depends_on, *rest in self._engine.rows(SQL["planned_jobs"])
        ]
        return sorted(planned, key=lambda job: job.planned_at_ms)

    def add(self, job: PlannedJob) -> None:
        """Store a planned job."""
        self._engine.change(
            SQL["add_planned_job"],
            (
                *(job.task, encode(job.payload).decode(), orjson.dumps(job.depends_on).decode()),
                *(job.priority, job.planned_by, job.correlation_id, job.message_id),
                *(job.for_worker, job.planned_at_ms),
            ),
        )

    def remove(self, task: str) -> None:
        """Delete the planned job of a task, if there is one."""
        self._engine.change(SQL["delete_planned_job"], (task,))
