"""The target branch: where it is, and moving it by compare-and-swap.

Where it is checked out, the work tree goes with it: else git would show what landed as taken back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...schema.errors import Refused, shown
from ..branches.patches import contains
from ..branches.repositories import repository_at
from ..repository import CommandFailed, GitFailed
from ..trees.tree_mending import PATIENT
from ..trees.tree_state import git_dir_of, named, operation_at
from ..trees.work_trees import WorkTrees
from .bus_files import is_derived
from .carrying import NotCarried, carry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..branches.repositories import Place

#: How long git may take to move a branch and the files of its tree, hooks included, in seconds.
_LIMIT_S = 600.0

#: How many fields git's status has before the path, for a changed file and for one in conflict.
_FIELDS = {b"1": 8, b"u": 10}


class TargetMoved(Refused):
    """The target is elsewhere than where it was pinned; nothing was changed."""


class TargetBusy(Refused):
    """The target can't be moved at present: a work tree that has it is not clean."""


class TargetRefused(Refused):
    """A rule of the repository, or of the remote, refuses the commit; these are its words."""


@dataclass(frozen=True)
class LocalTarget:
    """A branch of this repository.

    Attributes:
        place: the repository.
        branch: its name.
        held: descriptors of locks, for git to hold with us.
    """

    place: Place
    branch: str
    held: Sequence[int] = ()

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return self.place.branch_ref(self.branch)

    def pin(self) -> str:
        """Return the commit that it is at.

        Raises:
            Refused: there is no such branch.
        """
        found = self.place.git.commit(self.ref)
        if found is None:
            raise Refused(
                f"{self.place.main} has no branch {shown(self.branch)}; make it, or name another"
                " with --into"
            )
        return found

    def check_free(self) -> None:
        """Check that it could be moved now.

        Raises:
            TargetBusy: a work tree that has it checked out is not clean.
            Refused: there is no such branch.
        """
        self.pin()
        for tree in self._trees():
            self._check_tree(tree)

    def contains(self, at: str, commit: str) -> bool:
        """Return whether the target, which is at a commit, contains another one."""
        git = self.place.git
        return git.commit(commit) is not None and contains(git, at, commit)

    def move(self, candidate: str, onto: str, why: str) -> None:
        """Move it from one commit to another.

        Args:
            candidate: where it is to be.
            onto: where it was pinned.
            why: for the history of the ref.

        Raises:
            TargetMoved: it is elsewhere by now.
            TargetBusy: a work tree that has it checked out is not clean.
            TargetRefused: a hook refuses it.
            GitFailed: git failed; `mend` puts right what it left.
        """
        trees = self._trees()
        for tree in trees:
            self._check_tree(tree)
        done: list[str] = []
        try:
            for tree in trees:
                self._carry(tree, onto, candidate)
                done.append(tree)
            self._swap(candidate, onto, why)
        except (Refused, GitFailed):
            for tree in done:
                self._carry(tree, candidate, onto)
            raise

    def mend(self, candidate: str, onto: str) -> None:
        """Take the files of a tree back that a kill left at a candidate, before the ref moved."""
        if self.pin() != onto:
            return
        for tree in self._trees():
            git = repository_at(tree)
            difference = git.run("diff-index", "--cached", "--raw", candidate, "--")
            if not difference and git.run("diff-index", "--cached", "--raw", onto, "--"):
                self._carry(tree, candidate, onto)

    def follow(self, candidate: str) -> None:
        """Do nothing: it is where it is."""

    def _trees(self) -> list[str]:
        """Return the work trees that have it checked out."""
        place = self.place
        own = [] if place.is_bare or place.default_branch() != self.branch else [place.main]
        trees = WorkTrees(place).read()
        return [
            *own,
            *(tree.path for tree in trees if tree.branch == self.branch and tree.is_there),
        ]

    def _check_tree(self, tree: str) -> None:
        operation = operation_at(git_dir_of(tree))
        changed = [] if operation else _changed(tree)
        if changed or operation:
            dirt = (
                f"a {operation} is under way" if operation else f"not committed: {named(changed)}"
            )
            raise TargetBusy(
                f"{shown(self.branch)} is checked out at {tree}, which is not clean ({dirt});"
                " commit or stash that, or check out another branch there"
            )

    def _carry(self, tree: str, before: str, after: str) -> None:
        """Bring the files of a tree from one commit to another; changes of others are kept."""
        try:
            carry(tree, before, after, self.held)
        except NotCarried as error:
            raise TargetBusy(
                f"{shown(self.branch)} is checked out at {tree}, and can't be moved there: {error}"
            ) from error

    def _swap(self, candidate: str, onto: str, why: str) -> None:
        command = (*PATIENT, "update-ref", "-m", why, self.ref, candidate, onto)
        try:
            self.place.git.run(*command, limit_s=_LIMIT_S, kept=self.held)
        except CommandFailed as error:
            now = self.place.git.commit(self.ref)
            if now == candidate:
                return
            if now != onto:
                raise TargetMoved(f"{shown(self.branch)} was moved meanwhile") from error
            if "hook" in error.reason:
                raise TargetRefused(error.reason) from error
            raise


def _changed(tree: str) -> list[str]:
    """Return the files of git that differ from the head of a work tree, staged or not.

    What a bus there keeps by itself is left out: it would keep every landing out.

    A submodule at another commit than the index has is left out: git leaves it alone, too, and
    each landing that moves one would keep the next one out.
    """
    options = ("--porcelain=v2", "-z", "--untracked-files=no", "--no-renames")
    raw = repository_at(tree).run("-c", "core.fsmonitor=false", "status", *options)
    changed = []
    for entry in raw.split(b"\0")[:-1]:
        kind, status, submodule, _ = entry.split(b" ", 3)
        file = os.fsdecode(entry.split(b" ", _FIELDS[kind])[-1])
        is_moved_submodule = submodule.startswith(b"S") and status.startswith(b".")
        if not (is_moved_submodule or is_derived(tree, file)):
            changed.append(file)
    return changed
