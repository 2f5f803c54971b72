"""Reports of workers about themselves, besides their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.queries import Table
from .task_table import CONTROL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..agent_program import OutputLine


@dataclass(frozen=True, slots=True)
class WorkerDetails:
    """A worker, as it described itself.

    Attributes:
        worker: the agent.
        poll_ms: how often it looks for jobs, in milliseconds, or None.
        capabilities, details: in the worker's own words.
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
        """Store a worker's description of itself, over its earlier one."""
        description = (poll_ms, _json(capabilities), _json(details))
        self._engine.change(
            CONTROL["describe_worker"], (worker, *description, self._engine.now_ms())
        )

    def note(self, worker: str) -> None:
        """Store a worker without a description, unless it is stored already."""
        self._engine.change(CONTROL["note_worker"], (worker, self._engine.now_ms()))

    def list(self) -> list[WorkerDetails]:
        """Return all workers, by name."""
        rows = self._engine.rows(CONTROL["workers"])
        return [
            WorkerDetails(
                worker, poll_ms, orjson.loads(capabilities), orjson.loads(details), *times
            )
            for worker, poll_ms, capabilities, details, *times in rows
        ]


def _json(value: Mapping[str, Any] | None) -> str:
    return orjson.dumps(value or {}).decode()


# The output of jobs, stored while they run, and when each last showed that it goes on.

#: How much of a line is kept, in characters.
MAX_LINE_CHARS = 65_536

#: How long output is kept, in milliseconds: a week.
KEPT_MS = 7 * 86_400_000

#: How many lines one transaction deletes, so that publishers hardly notice.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of a job's output.

    Attributes:
        id: its place among the lines of all jobs; only grows.
        seq: the message of the job.
        at_ms: when it was stored, in epoch milliseconds.
        stream: `stdout`, `stderr`, or None where the worker did not say.
        number: its place in that stream, from 1; None where the worker did not say.
        text: the line.
    """

    id: int
    seq: int
    at_ms: int
    stream: str | None
    number: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The times at which a job showed that it goes on, in epoch milliseconds.

    Attributes:
        first_log_at_ms: when its first line was stored.
        active_at_ms: when its newest line was stored.
    """

    first_log_at_ms: int
    active_at_ms: int


class JobOutput(Table):
    """The tables `task_output` and `task_progress`."""

    def add(self, seq: int, lines: Iterable[OutputLine]) -> list[int]:
        """Store lines of a job's output, in one transaction, and return their ids."""
        return self._add(seq, [(line.stream, line.seq, line.text) for line in lines])

    def add_text(self, seq: int, text: str) -> int:
        """Store a line of which neither stream nor number is known, and return its id."""
        return self._add(seq, [(None, None, text)])[0]

    def after(self, seq: int, after_id: int = 0, limit: int = 50) -> list[StoredLine]:
        """Return up to `limit` lines of a job after a line's id, in order."""
        rows = self._engine.rows(CONTROL["output_after"], (seq, after_id, limit))
        return [StoredLine(*row) for row in rows]

    def newest(self, seq: int, limit: int = 50) -> list[StoredLine]:
        """Return the last `limit` lines of a job, in order."""
        rows = list(self._engine.rows(CONTROL["output_newest"], (seq, limit)))
        return [StoredLine(*row) for row in reversed(rows)]

    def progress(self, seq: int) -> Progress | None:
        """Return when a job showed that it goes on; None before its first line."""
        row = self._engine.row(CONTROL["progress"], (seq,))
        return None if row is None else Progress(*row)

    def prune(self, before_ms: int) -> int:
        """Delete up to 500 lines that were stored before a time, and return how many.

        The `Progress` of a job is deleted with its last line.
        """
        with self._engine.write():
            old = self._engine.rows(CONTROL["jobs_of_old_output"], (before_ms, _BATCH))
            jobs = [(seq, before_ms) for (seq,) in dict.fromkeys(old)]
            self._engine.run_many(CONTROL["prune_progress"], jobs)
            return self._engine.count_changes(CONTROL["prune_output"], (before_ms, _BATCH))

    def _add(self, seq: int, rows: list[tuple[str | None, int | None, str]]) -> list[int]:
        with self._engine.write():
            now_ms = self._engine.now_ms()
            ids = [
                self._engine.insert(
                    CONTROL["add_output"], (seq, now_ms, stream, number, _kept(text))
                )
                for stream, number, text in rows
            ]
            if ids:
                self._engine.change(CONTROL["note_progress"], (seq, now_ms))
            if ids and ids[-1] % _BATCH < len(ids):  # once in 500 lines, whoever stores them
                self.prune(now_ms - KEPT_MS)
        return ids


def _kept(text: str) -> str:
    # Programs print what is no Unicode text, and that must be stored all the same.
    return text[:MAX_LINE_CHARS].encode(errors="backslashreplace").decode()
