"""Keeping heads: each commit that enters a review or the completions gets a ref of its own.

All doors come by here, before their transaction: `done` and `approve` in Python, on the command
line and over MCP, and PushPals' door. Git runs in no repository that only a row names; the
integrator, whose user names its repository, keeps there what could not be kept before.
"""

from __future__ import annotations

import re

from ...git.repository import GitFailed
from ...git.trees.done_heads import DoneHeads
from ...git.trusted import TrustedRepositories
from ...schema.queries import engine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ...git.trees.rescue import Kept
    from ..records.task import Task

#: The whole id of a commit: a door of others takes no other name of one.
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class KeptHeads:
    """The refs of heads that a bus waits to land.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._trusted = TrustedRepositories(bus.layout.directory)

    def keep(self, task: Task, head: str) -> Earlier:
        """Keep the head of a task, and return what was kept for it before. Safe to repeat.

        Nothing is kept within a transaction, in which git may not run, in a repository that only
        the row names, or of a commit that is not there.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        heads = self._heads(task.repository)
        if heads is None or not heads.has(head):
            return Earlier(None, [])
        return Earlier(heads, heads.keep(task.task, head))

    def keep_asked(self, head: str | None) -> None:
        """Keep a commit without a task or a target where a trusted repository has it.

        Raises:
            GitFailed: as for `keep`.
        """
        for heads in self._with(head):
            heads.keep_asked(None, head or "")

    def drop_asked(self, head: str | None) -> None:
        """Drop the ref of a commit without a task that is in its target now."""
        for heads in self._with(head):
            heads.landed(None, None, head or "")

    def _heads(self, repository: str) -> DoneHeads | None:
        if engine_of(self._bus).writing or not self._trusted.has(repository):
            return None
        try:
            return DoneHeads(self._trusted.place(repository))
        except GitFailed:  # it is there no more, with all of its commits
            return None

    def _with(self, head: str | None) -> Iterator[DoneHeads]:
        """Yield the heads of each repository around the bus, or this program, that has a commit."""
        if head is None or not _COMMIT.fullmatch(head):
            return
        for repository in self._trusted.around():
            heads = self._heads(repository)
            if heads is not None and heads.has(head):
                yield heads


class Earlier:
    """The refs of the earlier heads of a task, to drop once the next one is on record.

    Args:
        heads: of the repository; None: nothing was kept there.
        kept: the refs.
    """

    def __init__(self, heads: DoneHeads | None, kept: list[Kept]) -> None:
        self._heads, self._kept = heads, kept

    def drop(self) -> None:
        """Delete them."""
        if self._heads is not None and self._kept:
            self._heads.drop(self._kept)
