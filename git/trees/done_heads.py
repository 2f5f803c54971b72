"""Heads that wait to land: each is kept at a ref, whatever becomes of its branch and its tree.

A branch may be amended or deleted while its commit is reviewed, and then git's clean-up takes it. A
ref is `refs/ackbus/done/TASK/COMMIT`, from when a task is done until it has landed, is done again,
or is cleaned; that of a branch without a task is `refs/ackbus/asked/TARGET/COMMIT`, with `-` for a
target that nobody has named.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..branches.repositories import NOTHING
from ..repository import CommandFailed
from .rescue import Kept
from .tree_names import safe_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..branches.repositories import Place

#: Where the refs of tasks are, and those of branches without one.
DONE, ASKED = "refs/ackbus/done", "refs/ackbus/asked"

#: It stands for a target that nobody has named: no name of a branch is made to it.
_NO_TARGET = "-"

#: How long git, with a hook of the repository, may take for a ref, in seconds.
_LIMIT_S = 600.0


class DoneHeads:
    """The refs that keep what waits to land.

    Args:
        place: the repository.
    """

    def __init__(self, place: Place) -> None:
        self._git = place.git

    def of_task(self, task: str) -> list[Kept]:
        """Return what is kept for a task."""
        below = f"{DONE}/{safe_name(task)}"
        lines = self._git.run("for-each-ref", "--format=%(refname) %(objectname)", below)
        pairs = (os.fsdecode(line).rsplit(" ", 1) for line in lines.splitlines())
        return [Kept(ref, commit) for ref, commit in pairs]

    def has(self, head: str) -> bool:
        """Whether the repository has a commit."""
        return self._git.commit(head) is not None

    def keep(self, task: str, head: str) -> list[Kept]:
        """Keep the head by which a task is about to be done. Safe to repeat.

        Returns:
            What was kept for it before: to drop once the task is done.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        earlier = [kept for kept in self.of_task(task) if kept.commit != head]
        self._put(_ref_of(task, "", head), head)
        return earlier

    def keep_missing(self, heads: Iterable[tuple[str, str]]) -> None:
        """Keep the heads of tasks that have no ref, though they are done: each with its task.

        One that the repository does not have, or whose ref is refused, stays without.
        """
        known = os.fsdecode(self._git.run("for-each-ref", "--format=%(refname)", DONE)).split()
        for task, head in heads:
            if _ref_of(task, None, head) not in known and self.has(head):
                with suppress(CommandFailed):
                    self.keep(task, head)

    def keep_asked(self, target: str | None, head: str) -> None:
        """Keep a head that is to land in a target without a task. Safe to repeat.

        Args:
            target: the branch; None: nobody has named one.
            head: the whole id of the commit.

        Raises:
            GitFailed: as for `keep`.
        """
        self._put(_ref_of(None, target, head), head)

    def drop(self, kept: Iterable[Kept]) -> None:
        """Delete refs. One that can't be deleted stays, for `bus task clean`."""
        for each in kept:
            with suppress(CommandFailed):  # it is gone, or a hook refuses that
                self._git.run("update-ref", "-d", each.ref, each.commit, limit_s=_LIMIT_S)

    def landed(self, task: str | None, target: str | None, head: str) -> None:
        """Drop the ref of a head that has landed.

        Args:
            task: whose; None: of a branch without a task.
            target: where it has landed; None: nobody has named a target.
            head: the whole id of the commit.
        """
        refs = [_ref_of(task, target, head)]
        if task is None and target is not None:
            refs.append(_ref_of(None, None, head))
        self.drop([Kept(ref, head) for ref in refs])

    def _put(self, ref: str, head: str) -> None:
        if self._git.commit(ref) != head:
            self._git.run("update-ref", ref, head, NOTHING, limit_s=_LIMIT_S)


def _ref_of(task: str | None, target: str | None, head: str) -> str:
    if task is not None:
        return f"{DONE}/{safe_name(task)}/{head}"
    return f"{ASKED}/{_NO_TARGET if target is None else safe_name(target)}/{head}"
