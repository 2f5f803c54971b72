"""The table of planned jobs, and the record of one."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.message.canonical_json import decode_stored, encode
from ...schema.message.times import format_ts
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        message_id: of the message that told of it.
        planned_at_ms: when, in epoch milliseconds.
    """

    task: str
    payload: dict[str, Any]
    depends_on: tuple[str, ...]
    priority: int
    planned_by: str
    correlation_id: str | None
    message_id: str
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
        """Return all of them, the oldest first."""
        found = [
            PlannedJob(task, decode_stored(payload), tuple(orjson.loads(depends_on)), *rest)
            for task, payload, depends_on, *rest in self._engine.rows(SQL["planned_jobs"])
        ]
        return sorted(found, key=lambda job: job.planned_at_ms)

    def add(self, job: PlannedJob) -> None:
        """Store one."""
        self._engine.change(
            SQL["add_planned_job"],
            (
                *(job.task, encode(job.payload).decode(), orjson.dumps(job.depends_on).decode()),
                *(job.priority, job.planned_by, job.correlation_id, job.message_id),
                job.planned_at_ms,
            ),
        )

    def remove(self, task: str) -> None:
        """Delete the one for a task; none is all right."""
        self._engine.change(SQL["delete_planned_job"], (task,))
