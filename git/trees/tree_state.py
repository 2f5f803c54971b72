"""The state of a work tree: its head, what is not committed, what is under way."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from ..branches.repositories import repository_at
from ..repository import GitFailed
from ..sealed import sealed_tree
from ..text_file import read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..repository import Repository
    from .tree_list import Tree

#: Files that git keeps in its folder of a tree while an operation is under way, and which one.
_OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}

#: How many files an error names.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class TreeState:
    """The state of a work tree.

    Attributes:
        head: its commit, or None before the first.
        branch: the branch that is checked out, or None for a detached head.
        changed: the files of git that differ from the head, staged or not.
        untracked: files and folders that git neither has nor ignores.
        operation: what is under way: merge, rebase, cherry-pick, revert, bisect; or None.
        ahead: how many commits are beyond the base.
        unpushed: how many commits no remote has.
    """

    head: str | None
    branch: str | None
    changed: list[str]
    untracked: list[str]
    operation: str | None
    ahead: int
    unpushed: int

    @property
    def is_clean(self) -> bool:
        """Whether all is committed and nothing is under way."""
        return not (self.changed or self.untracked or self.operation)

    def dirt(self) -> str:
        """Return what keeps it from being clean, in words; at most ten files are named."""
        parts = []
        if self.operation:
            parts.append(f"a {self.operation} is under way")
        if self.changed:
            parts.append(f"not committed: {named(self.changed)}")
        if self.untracked:
            parts.append(f"unknown to git: {named(self.untracked)}")
        return "; ".join(parts)


def named(files: list[str]) -> str:
    """Return the names of the first files, and how many more there are."""
    shown = ", ".join(_plain(file) for file in files[:_NAMED])
    more = len(files) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _plain(file: str) -> str:
    return file if file.isprintable() and " " not in file else repr(file)


def repository_of(tree: Tree, extra: dict[str, str | None] | None = None) -> Repository:
    """Return git in a work tree, with the repository that lists the tree.

    The `.git` in the tree says nothing here: whoever works there may have put another in its place.
    """
    return repository_at(
        tree.path, {"GIT_DIR": tree.admin, "GIT_WORK_TREE": tree.path, **(extra or {})}
    )


def read_state(tree: Tree, base: str | None = None) -> TreeState:
    """Return the state of a work tree; nothing is changed there.

    What is configured in a repository that lies in the tree by itself is not run.

    Args:
        tree: as its repository lists it.
        base: the commit that its branch began at.

    Raises:
        GitFailed: there is no work tree, or git can't read it.
    """
    embedded = embedded_in(tree)
    # For changes in a submodule git runs another git there, with the configuration of that.
    state = _read(repository_of(tree), tree.admin, base, "dirty" if embedded else "none")
    dirty = [name for name in embedded if name not in state.changed and _is_dirty(tree, name)]
    return replace(state, changed=[*state.changed, *dirty])


def _is_dirty(tree: Tree, name: str) -> bool:
    """Whether a repository by itself has something that is not committed, by a sealed view."""
    path = os.path.join(tree.path, name)
    git_dir = os.path.realpath(_git_dir_in(path) or os.path.join(path, ".git"))
    options = ("--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
    return bool(sealed_tree(git_dir, git_dir, path).run("status", *options))


def look_at_state(common_dir: str, tree: Tree, base: str | None = None) -> TreeState:
    """Return the state of a work tree, as `read_state` does, and run nothing of the repository.

    A file with a filter of the repository counts as changed where git would store it otherwise. In
    a submodule only the commit is looked at.

    Raises:
        GitFailed: there is no work tree, or git can't look into it.
    """
    return _read(sealed_tree(common_dir, tree.admin, tree.path), tree.admin, base, "dirty")


def look_into(path: str, git_dir: str) -> TreeState:
    """Return the state of a repository by itself, as `look_at_state` does that of a linked tree.

    Args:
        path: the folder of its files.
        git_dir: git's folder of it.

    Raises:
        GitFailed: git can't look into it.
    """
    return _read(sealed_tree(git_dir, git_dir, path), git_dir, None, "dirty")


def _read(git: Repository, git_dir: str, base: str | None, ignored: str) -> TreeState:
    options = ("--porcelain=v2", "-z", "--branch", "--untracked-files=normal", "--no-renames")
    raw = git.run("status", *options, f"--ignore-submodules={ignored}")
    lines = [os.fsdecode(line) for line in raw.split(b"\0") if line]
    told = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    head = None if told["branch.oid"] == "(initial)" else told["branch.oid"]
    branch = None if told["branch.head"] == "(detached)" else told["branch.head"]
    return TreeState(
        head=head,
        branch=branch,
        changed=[_file(line) for line in lines if line[:2] in ("1 ", "2 ", "u ")],
        untracked=[line[2:] for line in lines if line.startswith("? ")],
        operation=operation_at(git_dir),
        ahead=_count(git, head, git.commits([base])[0] or head) if head and base else 0,
        unpushed=_count(git, head, "--remotes") if head else 0,
    )


def embedded_in(tree: Tree) -> list[str]:
    """Return the folders of a work tree that are repositories by themselves, and in its index.

    Git has only the id of their commit. The commit itself is in the folder, and goes with it; or in
    a repository elsewhere, but for those that git keeps for submodules.
    """
    entries = repository_of(tree).run("ls-files", "--stage", "-z").split(b"\0")
    links = (os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry[:6] == b"160000")
    return [name for name in links if _is_by_itself(tree, os.path.join(tree.path, name))]


def stage_all(git: Repository, embedded: list[str], limit_s: float) -> None:
    """Stage all that is in a work tree and not ignored; of repositories by themselves the commit.

    For what is not committed in one, `git add` would run another git there, which does what the
    configuration of that says.

    Args:
        git: in the tree, perhaps with another index, which tells what a sparse checkout leaves
            out; files beyond it are staged too.
        embedded: as `embedded_in` has them.
        limit_s: how long each call may take.
    """
    others = [f":(top,exclude,literal){name}" for name in embedded]
    add = ("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--sparse")
    git.run(*add, "--", ":(top)", *others, limit_s=limit_s)
    if embedded:
        git.run("update-index", "--", *embedded, limit_s=limit_s)


def _is_by_itself(tree: Tree, path: str) -> bool:
    if not os.path.lexists(os.path.join(path, ".git")):
        return False
    git_dir = _git_dir_in(path)
    common_dir = os.path.dirname(os.path.dirname(tree.admin))
    kept = [
        os.path.realpath(os.path.join(folder, "modules")) for folder in (tree.admin, common_dir)
    ]
    return git_dir is None or not os.path.realpath(git_dir).startswith(
        tuple(f"{folder}{os.sep}" for folder in kept)
    )


def _git_dir_in(path: str) -> str | None:
    """Return the folder of git's to which a `.git` that is a file leads; None for any other."""
    try:
        text = read_small(os.path.join(path, ".git"))
    except (FileNotFoundError, GitFailed):
        return None
    return os.path.join(path, text.removesuffix("\n").removeprefix("gitdir: "))


def git_dir_of(path: str) -> str:
    """Return git's folder of the work tree at a path."""
    answer = repository_at(path).run("rev-parse", "--absolute-git-dir")
    return os.fsdecode(answer).removesuffix("\n")


def operation_at(git_dir: str) -> str | None:
    """Return the operation that is under way in a tree, by git's folder of it; or None."""
    for name, operation in _OPERATIONS.items():
        if os.path.lexists(os.path.join(git_dir, name)):
            return operation
    return None


def _file(line: str) -> str:
    """Return the file of a line: after 8 fields of a changed one, 10 of an unmerged one."""
    return line.split(" ", 10 if line[0] == "u" else 8)[-1]


def _count(git: Repository, head: str, known: str) -> int:
    answer = git.run("rev-list", "--count", head, "--not", known, "--")
    return int(answer)
