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
        """Store a task over what is there of it; only a repair may, with the triggers off."""
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

    def mark_cleaned(self, name: str) -> None:
        """Note that the work tree of a task is removed."""
        self._engine.change(SQL["task_cleaned"], (name, self._engine.now_ms()))


def _task(row: tuple[Any, ...]) -> Task:
    (task, attempt, state, worker, branch, path, repository, base_ref, base, target, head) = row[
        :11
    ]
    (token, review, reviewer, requester, priority, max_attempts, on_lost) = row[11:18]
    (depends_on, from_queue, prompt, reason, blocked, commit_id, correlation_id) = row[18:25]
    return Task(
        task=task,
        attempt=attempt,
        state=state,
        worker=worker,
        branch=branch,
        path=path,
        repository=repository,
        base_ref=base_ref,
        base=base,
        target=target,
        head=head,
        token=token,
        review=review,
        reviewer=reviewer,
        requester=requester,
        priority=priority,
        max_attempts=max_attempts,
        on_lost=on_lost,
        depends_on=tuple(orjson.loads(depends_on)),
        from_queue=bool(from_queue),
        prompt=None if prompt is None else decode_stored(prompt),
        reason=reason,
        blocked=None if blocked is None else Blocked(**orjson.loads(blocked)),
        commit_id=commit_id,
        correlation_id=correlation_id,
        last_seq=row[25],
        created_at_ms=row[26],
        changed_at_ms=row[27],
        cleaned_at_ms=row[28],
    )


def _row(task: Task) -> tuple[object, ...]:
    return (
        *(task.task, task.attempt, task.state, task.worker, task.branch, task.path),
        *(task.repository, task.base_ref, task.base, task.target, task.head, task.token),
        *(task.review, task.reviewer, task.requester, task.priority, task.max_attempts),
        *(task.on_lost, _json(list(task.depends_on)), int(task.from_queue)),
        *(_json(task.prompt), task.reason, _blocked_json(task.blocked), task.commit_id),
        *(task.correlation_id, task.last_seq, task.created_at_ms, task.changed_at_ms),
        task.cleaned_at_ms,
    )


def _json(value: object) -> str:
    return encode(value).decode()


def _blocked_json(blocked: Blocked | None) -> str | None:
    return None if blocked is None else orjson.dumps(blocked).decode()
