"""The table of tasks."""

from __future__ import annotations

import orjson

from ...schema.message.canonical_json import decode_stored, encode
from ...schema.queries import Table
from .statements import SQL
from .task import Blocked, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ..options import TaskState

#: The columns, in the order of the statements.
_NAMES = Task.__slots__

#: More than any bus has.
_ALL = 1 << 40


class TaskTable(Table):
    """The table `tasks`: a row each, with the newest attempt."""

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
        wanted = None if states is None else orjson.dumps(sorted(states)).decode()
        wanted_of = (wanted, worker, _ALL if limit is None else limit, since_ms)
        rows = self._engine.rows(SQL["tasks"], wanted_of)
        return [_task(row) for row in rows]

    def landed_as(self, commit: str) -> Task | None:
        """Return the task that has landed as a commit, or None."""
        row = self._engine.row(SQL["task_of_commit"], (commit,))
        return None if row is None else _task(row)

    def live(self) -> list[Task]:
        """Return the tasks whose state is not final; the oldest first."""
        return [_task(row) for row in self._engine.rows(SQL["live_tasks"])]

    def unlanded(self, names: Collection[str]) -> list[str]:
        """Return those of some tasks that have not landed."""
        rows = self._engine.rows(SQL["unlanded_of"], (orjson.dumps(list(names)).decode(),))
        return [name for (name,) in rows]

    def add(self, task: Task) -> None:
        """Store a new task."""
        self._engine.change(SQL["add_task"], _row(task))

    def put(self, task: Task) -> None:
        """Store a task over what can't be read of it; only a repair may, with the triggers off."""
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
