"""The table of landings, and the record of one."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import orjson

from ...schema.message.times import format_ts
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    #: `intended`: the target is about to move; `proposed`: somebody else is asked to move it.
    LandingState = Literal["intended", "proposed", "landed", "abandoned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit that was to become the head of a target branch.

    Attributes:
        seq: of the message that tells of the intent.
        repository: the git directory that the work trees of its repository share.
        target: the branch.
        task, attempt: of whom; None for a branch without a task.
        branch, head: what was to land.
        onto: the commit that the candidate was made onto.
        candidate, tree: the commit, and its files.
        patch_id: git's id of what it changes.
        checks: those that passed on it, or on the last of its batch: `command`, `exit`.
        state: what became of it.
        completion_seq: of the entry in the queue.
        intended_at_ms, ended_at_ms: when, in epoch milliseconds; None as long as it is open.
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
    """The table `landings`: what was intended is there before the target moves."""

    def add(self, landing: Landing) -> None:
        """Store one."""
        checks = orjson.dumps(landing.checks).decode()
        row = astuple(replace(landing, checks=()))
        self._engine.change(SQL["add_landing"], (*row[:11], checks, *row[12:]))

    def end(self, seq: int, state: LandingState, at_ms: int | None) -> bool:
        """Store what became of one; return whether that was open.

        Args:
            seq: its own.
            state: `landed` or `abandoned`; `proposed` leaves it open.
            at_ms: when.
        """
        return bool(self._engine.count_changes(SQL["end_landing"], (seq, state, at_ms)))

    def open(self, repository: str, target: str) -> list[Landing]:
        """Return those of a target of which nobody knows the end yet, in order."""
        return _all(self._engine.rows(SQL["open_landings"], (repository, target)))

    def undecided(self) -> list[Landing]:
        """Return those of all targets of which nobody knows the end yet."""
        return _all(self._engine.rows(SQL["undecided_landings"]))

    def of_head(self, repository: str, target: str, head: str) -> list[Landing]:
        """Return those by which a head was to land, in order."""
        return _all(self._engine.rows(SQL["landings_of_head"], (repository, target, head)))

    def of_commits(self, repository: str, target: str, commits: Iterable[str]) -> list[Landing]:
        """Return those that have landed as one of some commits."""
        asked = orjson.dumps(list(commits)).decode()
        rows = self._engine.rows(SQL["landings_of_commits"], (repository, target, asked))
        return _all(rows)

    def of_task(self, task: str) -> list[Landing]:
        """Return those of a task, in order."""
        return _all(self._engine.rows(SQL["landings_of_task"], (task,)))


def _all(rows: Iterable[tuple[Any, ...]]) -> list[Landing]:
    names = Landing.__slots__
    return [
        Landing(**dict(zip(names, row, strict=True)) | {"checks": tuple(orjson.loads(row[11]))})
        for row in rows
    ]
