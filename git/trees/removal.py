"""Remove work trees and branches of tasks. No commit is lost by it, and no file but ignored ones.

Whatever else would be lost is kept at a ref first. A tree that is not clean stays, unless its files
are to be kept as well. Nothing here deletes a folder by itself: `git worktree remove` does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from ...schema.directory.layout import BUS_DIRECTORY
from ...schema.errors import Refused, shown
from ..repository import CommandFailed
from ..sealed import sealed_around
from .done_heads import DoneHeads
from .nested import (
    bring,
    check_within,
    repositories_within,
    tips_on_no_remote,
    trees_within,
    unpushed_of,
)
from .rescue import Kept, Rescue
from .tree_list import checked_out_at
from .tree_mending import drop_dead_locks, mend
from .tree_state import embedded_in, look_at_state, read_state, repository_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..sealed import SealedRepository
    from .tree_list import Tree
    from .tree_state import TreeState
    from .work_trees import WorkTrees

#: How long git may take to delete the files of a tree, in seconds.
_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Removed:
    """The outcome of a removal.

    Attributes:
        path: of the tree that is gone; None where there was none.
        branch: the branch that is gone; None where there was none, or it stays.
        kept: the refs that keep what nothing else has.
        reason: why the branch stays, or None.
    """

    path: str | None
    branch: str | None
    kept: list[Kept]
    reason: str | None = None


class Removal:
    """Removes what tasks no longer need.

    Args:
        trees: the work trees of a repository.

    Attributes:
        place: the repository.
    """

    def __init__(self, trees: WorkTrees) -> None:
        self._trees = trees
        self.place = trees.place
        self._rescue = Rescue(trees.place)
        self._done = DoneHeads(trees.place)

    def remove(
        self,
        task: str,
        branch: str | None,
        *,
        landed: Collection[str] = (),
        keeps_files: bool = False,
    ) -> Removed:
        """Remove the tree and the branch of a task. Safe to repeat.

        Args:
            task: whose.
            branch: its branch, if it is to go too.
            landed: the heads of the branch that are known to have landed; ancestry says nothing.
            keeps_files: whether files that are not committed are kept at a ref; else they keep the
                tree from being removed.

        Raises:
            Refused: the tree is not clean, or somebody is at work in it. Nothing was changed.
            GitFailed: git failed; a repetition goes on from there.
        """
        with self._trees.locks.of_task(task) as held:
            tree = self._trees.of(task)
            kept = []
            if tree is not None:
                files = self._files(task, tree, keeps_files)
                inner = self._within(tree)
                lost = self._rescue.endangered(tree.admin, branch, landed)
                lost += self._lost_within(task, tree, inner, keeps_files)
                kept = self._rescue.keep(task, [*lost, *files])
                self._remove_tree(task, tree, inner, files, held)
            reason = self._remove_branch(task, branch, landed, kept) if branch else None
            if branch and reason is None:
                kept += self._let_go(task, landed)
            self._trees.locks.forget(task)
        gone = branch if branch and not reason else None
        return Removed(tree.path if tree else None, gone, list(dict.fromkeys(kept)), reason)

    def check(self, task: str, *, keeps_files: bool = False) -> None:
        """Check that `remove` would remove the tree of a task. Changes and runs nothing.

        Raises:
            Refused: the tree has to stay.
        """
        tree = self._trees.of(task)
        if tree is None:
            return
        self._refuse_use(tree)
        if os.path.lexists(tree.path) and not is_begun(tree):
            state = look_at_state(self.place.common_dir, tree)
            _refuse_dirt(tree, state, keeps_files)
            inner = self._within(tree)
            for each in inner:
                check_within(self.place, tree, each, keeps_files=keeps_files)
            for repository in repositories_within(tree, inner):
                unpushed_of(repository)

    def _within(self, tree: Tree) -> list[Tree]:
        """Return the work trees in the folder of a tree, the innermost first."""
        within = trees_within(tree, self._trees.read())
        return sorted(within, key=lambda each: -len(each.path))

    def _lost_within(
        self, task: str, tree: Tree, inner: list[Tree], keeps_files: bool
    ) -> list[str]:
        """Return the commits that would be lost with what lies in the folder of a tree.

        Those of repositories by themselves are brought here.

        Raises:
            Refused: the tree has to stay.
        """
        lost = []
        for each in inner:
            head = check_within(self.place, tree, each, keeps_files=keeps_files)
            lost += self._rescue.endangered(each.admin, None)
            lost += [] if head is None else [self._rescue.files_of(task, each, head)]
        found = [(each, unpushed_of(each)) for each in repositories_within(tree, inner)]
        for repository, commits in found:
            if commits:
                bring(self.place, repository, commits)
                lost += commits
        return lost

    def _files(self, task: str, tree: Tree, keeps_files: bool) -> list[str]:
        """Return the commit that has what is not committed, if something is.

        Raises:
            Refused: the tree has to stay.
        """
        drop_dead_locks(tree)
        self._refuse_use(tree)
        if is_begun(tree) or not (os.path.lexists(tree.path) or self._rescue.has_staged(tree)):
            return []
        mend(tree, tree.head or "", _LIMIT_S)
        head = _refuse_dirt(tree, read_state(tree), keeps_files)
        return [] if head is None else [self._rescue.files_of(task, tree, head)]

    def _refuse_use(self, tree: Tree) -> None:
        """Refuse a tree that a git works in, or that has a bus or unpushed commits of its own."""
        if os.path.lexists(lock := os.path.join(tree.admin, "index.lock")):
            raise Refused(
                f"a git is at work in {tree.path}, or was killed there; wait, or if there is none,"
                f" take {lock} away"
            )
        if os.path.lexists(os.path.join(tree.path, BUS_DIRECTORY, "bus.db")):  # git ignores it
            raise Refused(
                f"{tree.path} has a bus of its own, in {BUS_DIRECTORY}; move that away first"
            )
        _refuse_unpushed_submodules(tree)

    def _remove_tree(
        self, task: str, tree: Tree, inner: list[Tree], files: list[str], held: int
    ) -> None:
        """Remove a tree, all of which is committed or kept, and first those within it."""
        with self._trees.locks.of_all() as list_held:
            if tree.lock is not None:
                self.place.git.run("worktree", "unlock", tree.path)
            for commit in files:
                self._refuse_changed(task, tree, commit)
            for each in inner:  # all of it was looked at, and is kept where it would be lost
                remove = ("worktree", "remove", "--force", each.path)
                self.place.git.run(*remove, limit_s=_LIMIT_S, kept=(held, list_held))
            # By force alone git removes one that has submodules, kept files, or no index yet.
            force = ("--force",) if files or _needs_force(tree) else ()
            command = ("worktree", "remove", *force, tree.path)
            self.place.git.run(*command, limit_s=_LIMIT_S, kept=(held, list_held))

    def _refuse_changed(self, task: str, tree: Tree, commit: str) -> None:
        """Refuse to delete files that are others by now than those that were kept."""
        now = self._rescue.files_of(task, tree, f"{commit}^")
        trees = [f"{each}^{{tree}}" for each in (commit, now)]
        if len(set(self.place.git.describe(*trees))) != 1:
            raise Refused(f"somebody is at work in {tree.path}: its files changed meanwhile")

    def _remove_branch(
        self, task: str, branch: str, landed: Collection[str], kept: list[Kept]
    ) -> str | None:
        """Delete a branch if it still is where it was looked at; return why it stays, or None."""
        ref = self.place.branch_ref(branch)
        head = self.place.git.commit(ref)
        if head is None:
            return None
        if (at := checked_out_at(self.place, branch, self._trees.read())) is not None:
            return f"it is checked out at {at}"
        kept += self._rescue.keep(task, self._rescue.endangered(None, branch, landed))
        try:
            self.place.git.run("update-ref", "-d", ref, head, limit_s=_LIMIT_S)
        except CommandFailed as error:
            return f"it was moved meanwhile ({error.reason})"
        with suppress(CommandFailed):  # most have no settings
            self.place.git.run("config", "--remove-section", f"branch.{branch}")
        return None

    def _let_go(self, task: str, landed: Collection[str]) -> list[Kept]:
        """Delete the refs of heads that were done, which are kept where they would be lost."""
        done = self._done.of_task(task)
        commits = [each.commit for each in done]
        kept = self._rescue.keep(task, self._rescue.endangered(None, None, landed, commits))
        self._done.drop(done)
        return kept


def _refuse_dirt(tree: Tree, state: TreeState, keeps_files: bool) -> str | None:
    """Return the head of a tree whose files can be kept; None where all is committed.

    Raises:
        Refused: something is not committed, and is not to be kept, or has no commit to stand on.
    """
    if state.is_clean:
        return None
    if not keeps_files or state.head is None:
        raise Refused(
            f"{tree.path} is not clean: {state.dirt()}; commit or discard that, or have it kept"
            " at a ref"
        )
    return state.head


def is_begun(tree: Tree) -> bool:
    """Whether the making of a tree was cut off before it had files: nobody was given it."""
    return not tree.is_made and not os.path.exists(os.path.join(tree.admin, "index"))


def _needs_force(tree: Tree) -> bool:
    """Whether git would refuse to remove a tree that has nothing to lose.

    Raises:
        Refused: it has something to lose by now.
    """
    if not os.path.lexists(tree.path) or is_begun(tree):
        return os.path.lexists(tree.path)
    entries = repository_of(tree).run("ls-files", "--stage", "-z").split(b"\0")
    if not any(entry.startswith(b"160000 ") for entry in entries):
        return False
    if not (state := read_state(tree)).is_clean:
        raise Refused(f"{tree.path} is not clean any more: {state.dirt()}")
    return True


def _refuse_unpushed_submodules(tree: Tree) -> None:
    """Refuse a tree with submodules that have commits which no remote has.

    Git keeps their repositories in its folder of the tree, which goes with it, or in the tree.
    """
    modules = os.path.join(tree.admin, "modules")
    for folder, folders, _ in os.walk(modules):
        if "objects" in folders and "refs" in folders:
            folders.clear()
            _refuse_unpushed(sealed_around(folder), os.path.relpath(folder, modules), tree)
    for name in embedded_in(tree) if tree.is_there else ():
        _refuse_unpushed(sealed_around(os.path.join(tree.path, name)), name, tree)


def _refuse_unpushed(git: SealedRepository, name: str, tree: Tree) -> None:
    if tips_on_no_remote(git):
        raise Refused(
            f"submodule {shown(name)} of {tree.path} has commits that no remote has; push them"
            " first"
        )
