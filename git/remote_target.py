"""The target branch of a remote: a plain push is the compare-and-swap, and is never forced."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass

from ..schema.directory.folder import Folder
from ..schema.errors import Refused, shown
from .branches.candidates import contains
from .repository import CommandFailed, GitFailed, replace_text
from .target_refs import LocalTarget, TargetBusy, TargetMoved, TargetRefused
from .trees.tree_list import CHECK_MARK, safe_name
from .trees.tree_state import embedded_in, repository_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .repository import Repository
    from .trees.tree_list import LinkedTree
    from .trees.work_trees import WorkTrees

#: Where the commit that the remote's branch is at is kept.
_PINNED = "refs/ackbus/remote"

#: How long a fetch, and a push with its hooks, may take, in seconds.
LIMIT_S = 300.0

#: Reasons by which git says that the branch of the remote is elsewhere.
_MOVED = re.compile(
    r"fetch first|non-fast-forward|stale info|needs force|cannot lock ref|failed to update ref"
    r"|incorrect old value|failed to lock|reference already exists|but expected"
)

#: Lines of a failed push that are no reason.
_NO_REASON = re.compile(r"error: failed to push some refs|^hint: |^To |^Done$|^$")


class RemoteUnreachable(GitFailed):
    """The remote did not answer, or not in time; it may later."""


@dataclass(frozen=True)
class RemoteTarget(LocalTarget):
    """A branch of a remote, which the local branch of the same name follows.

    Attributes:
        remote: its name, or its address.
        limit_s: how long a fetch or a push may take.
    """

    remote: str = "origin"
    limit_s: float = LIMIT_S

    def pin(self) -> str:
        """Fetch the branch, and return its commit.

        Raises:
            Refused: the remote has no such branch.
            RemoteUnreachable: it does not answer.
        """
        pinned = f"{_PINNED}/{safe_name(self.remote)}/{safe_name(self.branch)}"
        spec = f"+{self.ref}:{pinned}"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")
        try:
            command = ("fetch", *options, "--", self.remote, spec)
            self.place.outward.run(*command, limit_s=self.limit_s, pass_fds=self.held)
        except CommandFailed as error:
            if "couldn't find remote ref" in error.reason:
                raise Refused(
                    f"{self.remote} has no branch {shown(self.branch)}; push it there first"
                ) from error
            raise RemoteUnreachable(f"{self.remote} can't be fetched: {error.reason}") from error
        except GitFailed as error:
            raise RemoteUnreachable(str(error)) from error
        commit = self.place.git.commit(pinned)
        assert commit is not None, pinned
        return commit

    def move(self, candidate: str, onto: str, why: str) -> None:
        """Push the candidate, and let the local branch follow where it can.

        Raises:
            TargetMoved: the remote's branch is elsewhere by now.
            TargetRefused: a rule of the remote, or a hook here, refuses it.
            RemoteUnreachable: it does not answer; nobody knows whether it has the commit.
        """
        options = ("--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--no-progress")
        push = ("push", *options, "--", self.remote, f"{candidate}:{self.ref}")
        try:
            self.place.outward.run(*push, limit_s=self.limit_s, pass_fds=self.held)
        except GitFailed as error:
            if (now := self.pin()) != candidate:  # only the remote knows what became of it
                self._explain(error, now, onto)
        self._follow(candidate, why)

    def _explain(self, error: GitFailed, now: str, onto: str) -> NoReturn:
        """Raise the error that a failed push stands for."""
        if not isinstance(error, CommandFailed):
            raise TargetRefused(str(error)) from error
        lines = error.stdout.decode("utf-8", "replace").splitlines()
        refusals = [line.split("\t")[-1] for line in lines if line.startswith("!")]
        if now != onto or any(_MOVED.search(line) for line in refusals):
            raise TargetMoved(
                f"{shown(self.branch)} of {self.remote} was moved meanwhile"
            ) from error
        if not refusals and error.code == 128:
            raise RemoteUnreachable(f"{self.remote} can't be reached: {error.reason}") from error
        words = [
            line.removeprefix("remote: ").strip()
            for line in error.stderr.decode("utf-8", "replace").splitlines()
            if not _NO_REASON.search(line)
        ]
        raise TargetRefused("; ".join([*refusals, *words][:4]) or error.reason) from error

    def _follow(self, candidate: str, why: str) -> None:
        """Move the local branch too, unless it has commits of its own, or its tree is not clean."""
        local = LocalTarget(self.place, self.branch, self.held)
        at = self.place.git.commit(self.ref)
        if at is None:
            return
        try:
            if at != candidate and contains(self.place.git, candidate, at):
                local.move(candidate, at, why)
        except (TargetBusy, TargetMoved, TargetRefused):
            return  # it follows at the next push or pull: what landed has landed

    def follow(self, candidate: str) -> None:
        """Move the local branch too, if a kill came right after the push."""
        self.mend(candidate, candidate)
        self._follow(candidate, "bus integrate: follow the remote")

    def check_free(self) -> None:
        """Check nothing: only the local branch could be in the way, and need not follow."""

    def mend(self, candidate: str, onto: str) -> None:
        """Restore the files of a tree if a kill came while the local branch was moved."""
        at = self.place.git.commit(self.ref)
        if at is not None:
            LocalTarget(self.place, self.branch, self.held).mend(candidate, at)


# The work tree in which candidates for a target are checked: detached, and without any hook.

#: How long git may take to write all files, in seconds.
_LIMIT_S = 600.0

#: No hook of the user runs at a candidate.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")


class CheckTree:
    """The work tree of one target's candidates. Only the holder of the target uses it.

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
        """Check out a commit, without any other file; return the path of the tree."""
        tree = self._tree()
        if tree is not None and _is_own(tree):
            with suppress(CommandFailed):  # it is made afresh where something is wrong with it
                git = repository_of(tree)
                if _has_submodules(tree):  # what a check left in one is no file of this tree
                    git.run("submodule", "--quiet", "deinit", "--all", "--force")
                _check_out(git, commit)
                git.run("clean", "-ffdx", "--quiet", limit_s=_LIMIT_S)
                return self.path
        self.remove()
        self._trees.make_folder(os.path.dirname(self.path))
        options = ("--detach", "--force", "--lock", "--reason", self._reason)
        with self._trees.locks.of_all() as list_lock:
            command = (*_NO_HOOKS, "worktree", "add", "--quiet", *options, self.path, commit)
            self._git.run(*command, limit_s=_LIMIT_S, pass_fds=(list_lock,))
        return self.path

    def restore(self, commit: str) -> None:
        """Take back what a check did to the files of the commit; what it built stays."""
        tree = self._tree()
        if tree is not None and _is_own(tree):
            with suppress(CommandFailed):
                _check_out(repository_of(tree), commit)
                return
        self.put(commit)

    def remove(self) -> None:
        """Remove the tree with all its content, if it exists."""
        if self._tree() is None:
            return
        with self._trees.locks.of_all() as list_lock:
            command = ("worktree", "remove", "--force", "--force", self.path)
            self._git.run(*command, limit_s=_LIMIT_S, pass_fds=(list_lock,))

    def _tree(self) -> LinkedTree | None:
        checks = (tree for tree in self._trees.read() if tree.lock == self._reason)
        if (tree := next(checks, None)) is not None and not tree.is_there:
            _take_back(tree)
        return tree


def _check_out(git: Repository, commit: str) -> None:
    options = ("--quiet", "--force", "--recurse-submodules", "--detach")
    git.run(*_NO_HOOKS, "checkout", *options, commit, limit_s=_LIMIT_S)


def _is_own(tree: LinkedTree) -> bool:
    """Whether a tree and its submodules still lead to git's own folders of them."""
    return tree.is_there and not embedded_in(tree)


def _take_back(tree: LinkedTree) -> None:
    """Put the `.git` of a tree back that a check has exchanged; else git would not remove it."""
    if os.path.isdir(tree.path) and not os.path.islink(tree.path):
        Folder(tree.path).remove_with_contents(".git")
        replace_text(os.path.join(tree.path, ".git"), f"gitdir: {tree.admin}\n", 0o644)


def _has_submodules(tree: LinkedTree) -> bool:
    """Whether a check has initialised submodules in a work tree."""
    return os.path.isdir(os.path.join(tree.admin, "modules"))
