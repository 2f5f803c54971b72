"""The work tree in which candidates for a target are checked: detached, and without any hook."""

from __future__ import annotations

import os
from contextlib import suppress

from ..branches.repositories import repository_at
from ..repository import CommandFailed
from ..trees.tree_names import CHECK_MARK, safe_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..trees.tree_list import Tree
    from ..trees.work_trees import WorkTrees

#: How long git may take to write all files, in seconds.
_LIMIT_S = 600.0

#: No hook of the user runs at a candidate.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")


class CheckTree:
    """The work tree of one target's candidates. Whoever holds the target uses it alone.

    Args:
        trees: the work trees of the repository.
        target: the branch.

    Attributes:
        path: where it is.
    """

    def __init__(self, trees: WorkTrees, target: str) -> None:
        self._trees = trees
        self._git = trees.place.git
        self.path = os.path.join(os.path.realpath(trees.folder), f".check-{safe_name(target)}")
        self._reason = f"{CHECK_MARK}{safe_name(target)}"

    def put(self, commit: str) -> str:
        """Bring it to a commit, without anything that is not in that; return its path."""
        tree = self._tree()
        if tree is not None and tree.is_there:
            with suppress(CommandFailed):  # it is made afresh where something is wrong with it
                git = repository_at(self.path)
                if _has_submodules(tree):  # what a check left in one is no file of this tree
                    git.run("submodule", "--quiet", "deinit", "--all", "--force")
                self._check_out(commit)
                git.run("clean", "-ffdx", "--quiet", limit_s=_LIMIT_S)
                return self.path
        self.remove()
        self._trees.make_folder(os.path.dirname(self.path))
        options = ("--detach", "--force", "--lock", "--reason", self._reason)
        with self._trees.locks.of_all() as held:
            command = (*_NO_HOOKS, "worktree", "add", "--quiet", *options, self.path, commit)
            self._git.run(*command, limit_s=_LIMIT_S, kept=(held,))
        return self.path

    def restore(self, commit: str) -> None:
        """Take back what a check did to the files of the commit; what it built stays."""
        try:
            self._check_out(commit)
        except CommandFailed:
            self.put(commit)

    def remove(self) -> None:
        """Remove it with all that is in it; none is all right."""
        if self._tree() is None:
            return
        with self._trees.locks.of_all() as held:
            command = ("worktree", "remove", "--force", "--force", self.path)
            self._git.run(*command, limit_s=_LIMIT_S, kept=(held,))

    def _check_out(self, commit: str) -> None:
        options = ("--quiet", "--force", "--recurse-submodules", "--detach")
        checkout = (*_NO_HOOKS, "checkout", *options, commit)
        repository_at(self.path).run(*checkout, limit_s=_LIMIT_S)

    def _tree(self) -> Tree | None:
        found = (tree for tree in self._trees.read() if tree.lock == self._reason)
        return next(found, None)


def _has_submodules(tree: Tree) -> bool:
    """Whether a check has initialised submodules in a work tree."""
    return os.path.isdir(os.path.join(tree.admin, "modules"))
