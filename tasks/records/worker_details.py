"""The words of workers about themselves, beside their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.queries import Table
from .statements import CONTROL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerDetails:
    """A worker, as it described itself.

    Attributes:
        worker: the agent.
        poll_ms: how often it looks for jobs, in milliseconds, or None.
        capabilities, details: by its own words.
        created_at_ms, updated_at_ms: when it was first seen, and last described, in epoch
            milliseconds.
    """

    worker: str
    poll_ms: int | None
    capabilities: dict[str, Any]
    details: dict[str, Any]
    created_at_ms: int
    updated_at_ms: int


class Workers(Table):
    """The table `task_workers`."""

    def describe(
        self,
        worker: str,
        *,
        poll_ms: int | None = None,
        capabilities: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Store what a worker says of itself, over what it said before."""
        told = (poll_ms, _json(capabilities), _json(details))
        self._engine.change(CONTROL["describe_worker"], (worker, *told, self._engine.now_ms()))

    def note(self, worker: str) -> None:
        """Note that there is a worker, unless that is known."""
        self._engine.change(CONTROL["note_worker"], (worker, self._engine.now_ms()))

    def list(self) -> list[WorkerDetails]:
        """Return all workers, by name."""
        return [
            WorkerDetails(worker, poll_ms, orjson.loads(able), orjson.loads(more), *times)
            for worker, poll_ms, able, more, *times in self._engine.rows(CONTROL["workers"])
        ]


def _json(value: Mapping[str, Any] | None) -> str:
    return orjson.dumps(value or {}).decode()
