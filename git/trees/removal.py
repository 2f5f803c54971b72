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
from ..repository import CommandFailed, GitFailed, is_plain_file, read_small
from ..sealed import sealed_around, sealed_tree
from .rescue import OPERATION_FILES, DoneHeads, KeptCommit, Rescue, commits_in, history
from .tree_list import checked_out_at
from .tree_state import (
    drop_dead_locks,
    embedded_in,
    look_at_state,
    look_into,
    mend,
    read_state,
    repository_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..branches.repositories import RepositoryPlace
    from ..sealed import SealedRepository
    from .tree_list import LinkedTree
    from .tree_state import TreeState
    from .work_trees import WorkTrees

# Repositories and work trees within a work tree, which go with it, in ignored folders unseen.
#
# One that is clean and has all its commits on its remotes is no loss. Commits of another are
# brought to this repository, so that refs keep them, or the tree stays. All is looked at by
# sealed views.

#: How many files and folders of a tree are looked through at most.
MAX_ENTRIES = 1_000_000

#: How large the objects of a repository within may be that is brought here, in bytes (256 MiB).
_MAX_BYTES = 256 * 1024 * 1024

#: How long bringing a repository here may take, in seconds.
_LIMIT_S = 600.0

#: The folders of a repository of git's in which others may be.
_WITHIN_GIT = ("modules",)

#: The names that make a folder one of git's.
_OF_GIT = {"HEAD", "objects", "refs"}


@dataclass(frozen=True, slots=True)
class InnerRepository:
    """A repository within a work tree.

    Attributes:
        path: the folder of its files; that of git's where it has none.
        git_dir: git's folder of it.
    """

    path: str
    git_dir: str


def trees_within(tree: LinkedTree, trees: list[LinkedTree]) -> list[LinkedTree]:
    """Return the work trees of the same repository whose folders are in that of a tree."""
    top = os.path.realpath(tree.path) + os.sep
    return [other for other in trees if os.path.realpath(other.path).startswith(top)]


def check_within(
    place: RepositoryPlace, tree: LinkedTree, inner: LinkedTree, *, keeps_files: bool
) -> str | None:
    """Check a work tree within another; return its head if its files must be kept, else None.

    Raises:
        Refused: it has to stay.
    """
    if inner.is_ours or inner.lock is not None:
        raise Refused(f"{inner.path}, a locked work tree, is in {tree.path}; end that one first")
    if not inner.is_there:
        return None
    state = look_at_state(place.common_dir, inner)
    if state.is_clean:
        return None
    if not keeps_files or state.head is None:
        raise Refused(
            f"{inner.path}, a work tree in {tree.path}, is not clean: {state.dirt()}; commit or"
            " discard that"
        )
    return state.head


def repositories_within(
    tree: LinkedTree, trees_within_it: list[LinkedTree]
) -> list[InnerRepository]:
    """Return the repositories in the folder of a tree, but submodules that git keeps elsewhere.

    Args:
        tree: the tree.
        trees_within_it: the work trees within it that git knows.

    Raises:
        Refused: something in it can't be looked at, or is of a repository elsewhere.
    """
    top = os.path.realpath(tree.path)
    own = (
        os.path.realpath(tree.admin) + os.sep,
        *(os.path.realpath(t.admin) for t in trees_within_it),
    )
    repositories = []
    for inner in _search(tree.path):
        git_dir = os.path.realpath(inner.git_dir)
        if git_dir.startswith(own) or not os.path.isdir(git_dir):
            continue
        if not git_dir.startswith(top + os.sep):
            raise Refused(
                f"{inner.path}, in a tree that is to go, is a work tree of {git_dir}; move it first"
            )
        if os.path.isdir(os.path.join(git_dir, "objects")):
            repositories.append(inner)
    return repositories


def unpushed_of(inner: InnerRepository) -> list[str]:
    """Return the commits that would be lost with a repository, without their ancestors.

    Raises:
        Refused: it has to stay: files are not committed, or it can't be looked into.
    """
    try:
        if inner.path != inner.git_dir:
            state = look_into(inner.path, inner.git_dir)
            if not state.is_clean:
                raise Refused(
                    f"{inner.path}, a repository by itself, is not clean: {state.dirt()}; commit"
                    " that there, or move it"
                )
        tips = tips_on_no_remote(_sealed(inner))
    except GitFailed as error:
        raise Refused(
            f"{inner.path}, a repository by itself, can't be looked into: {error}; move it first"
        ) from error
    if tips:
        _refuse_unbringable(inner)
    return tips


def tips_on_no_remote(git: SealedRepository) -> list[str]:
    """Return the commits of a repository that none of its remotes has, without their ancestors.

    They include former commits of its branches and its head, and those of an operation.

    Raises:
        GitFailed: it can't be looked into.
    """
    once = list(dict.fromkeys(_former_commits(git.common_dir)))
    there = [commit for commit in git.commits(once) if commit is not None]
    stdin = "".join(f"{commit}\n" for commit in there).encode()
    command = ("rev-list", "--parents", "--stdin", "--all", "--not", "--remotes")
    lines = git.run(*command, stdin=stdin).decode().splitlines()
    parents = {parent for line in lines for parent in line.split()[1:]}
    return [commit for line in lines if (commit := line.split()[0]) not in parents]


def _former_commits(git_dir: str) -> Iterator[str]:
    """Yield the commits that files of a repository name, and that no view of it shows."""
    for name in OPERATION_FILES:
        if is_plain_file(file := os.path.join(git_dir, name)):
            yield from commits_in(file)
    for here, _, names in os.walk(os.path.join(git_dir, "logs")):
        for name in names:
            if is_plain_file(file := os.path.join(here, name)):
                yield from history(file)


def bring(place: RepositoryPlace, inner: InnerRepository, commits: list[str]) -> None:
    """Bring commits of a repository within a tree, with all that they need, to this one.

    Git hashes each object again on its way in, so that none can stand for another.

    Raises:
        Refused: git can't.
    """
    stdin = "".join(f"{commit}\n" for commit in commits).encode()
    try:
        options = ("--revs", "--stdout", "--quiet")
        pack = _sealed(inner).run("pack-objects", *options, stdin=stdin, limit_s=_LIMIT_S)
        place.git.run("index-pack", "--stdin", stdin=pack, limit_s=_LIMIT_S)
    except CommandFailed as error:
        raise Refused(
            f"commits of {inner.path}, a repository by itself, can't be kept here: {error.reason};"
            " push them, or move it"
        ) from error


def _sealed(inner: InnerRepository) -> SealedRepository:
    if inner.path == inner.git_dir:
        return sealed_around(inner.path)
    return sealed_tree(inner.git_dir, inner.git_dir, inner.path)


def _refuse_unbringable(inner: InnerRepository) -> None:
    """Refuse a repository whose commits can't be kept whole here."""
    shallow, linked = (os.path.join(inner.git_dir, name) for name in ("shallow", "worktrees"))
    why = None
    if os.path.lexists(shallow):
        why = "it is a shallow clone"
    elif os.path.isdir(linked) and os.listdir(linked):
        why = "it has work trees elsewhere"
    elif _borrows_objects(inner.git_dir):
        why = "objects of it are taken from elsewhere"
    elif _bytes_of_objects(inner.git_dir) > _MAX_BYTES:
        why = f"its objects are more than {_MAX_BYTES >> 20} MiB"
    if why is not None:
        raise Refused(
            f"{inner.path}, a repository by itself, has commits that none of its remotes has, and"
            f" {why}; push them, or move it"
        )


def _borrows_objects(git_dir: str) -> bool:
    """Whether git would read objects of another place as those of a repository.

    Who wrote the tree may not be able to read there, and could read what is brought here.
    """
    objects = os.path.join(git_dir, "objects")
    walk = ((here, name) for here, *names in os.walk(objects) for name in (*names[0], *names[1]))
    return (
        os.path.lexists(os.path.join(objects, "info", "alternates"))
        or os.path.islink(objects)
        or any(os.path.islink(os.path.join(here, name)) for here, name in walk)
    )


def _bytes_of_objects(git_dir: str) -> int:
    walk = os.walk(os.path.join(git_dir, "objects"))
    return sum(
        os.lstat(os.path.join(here, name)).st_size for here, _, names in walk for name in names
    )


def _search(top: str) -> Iterator[InnerRepository]:
    """Yield all that looks like a repository below a folder; links are not followed.

    Raises:
        Refused: there is too much to look through, or a folder can't be read.
    """
    entries_left, folders = MAX_ENTRIES, [top]
    while folders:
        here = folders.pop()
        entries = _entries(here)
        entries_left -= len(entries)
        if entries_left < 0:
            raise Refused(
                f"{top} has more than {MAX_ENTRIES} files, too many to look for repositories in it;"
                " delete what nobody needs"
            )
        is_git = {entry.name for entry in entries} >= _OF_GIT
        if is_git and here != top:
            yield InnerRepository(here, here)
        for entry in entries:
            if entry.name == ".git":
                if here != top:
                    yield InnerRepository(here, _git_dir_of(entry))
                if entry.is_dir(follow_symlinks=False):
                    folders += [os.path.join(entry.path, name) for name in _WITHIN_GIT]
            elif entry.is_dir(follow_symlinks=False) and (not is_git or entry.name in _WITHIN_GIT):
                folders.append(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Refused(f"{folder} can't be looked through: {error.strerror}") from error


def _git_dir_of(entry: os.DirEntry[str]) -> str:
    """Return git's folder as a `.git` says it, be it a folder, a file, or a link to either.

    Raises:
        Refused: it is a file that can't be read: what would be lost is not known.
    """
    path = os.path.realpath(entry.path)
    if not is_plain_file(path):
        return path
    try:
        text = read_small(path)
    except (FileNotFoundError, GitFailed) as error:
        raise Refused(
            f"{entry.path}, in a tree that is to go, can't be looked into: {error}; move it first"
        ) from error
    named = text.removesuffix("\n").removeprefix("gitdir: ").replace("\0", "")
    return os.path.realpath(os.path.join(os.path.dirname(entry.path), named))


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
    kept: list[KeptCommit]
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
            task: the task.
            branch: its branch, if it is to go too.
            landed: the heads of the branch that are known to have landed; ancestry says nothing.
            keeps_files: whether files that are not committed are kept at a ref; else they keep the
                tree from being removed.

        Raises:
            Refused: the tree is not clean, or somebody is at work in it. Nothing was changed.
            GitFailed: git failed; a repetition goes on from there.
        """
        with self._trees.locks.of_task(task) as task_lock:
            tree = self._trees.of(task)
            rescued = []
            if tree is not None:
                files = self._files(task, tree, keeps_files)
                inner = self._within(tree)
                lost = self._rescue.endangered(tree.admin, branch, landed)
                lost += self._lost_within(task, tree, inner, keeps_files)
                rescued = self._rescue.keep(task, [*lost, *files])
                self._remove_tree(task, tree, inner, files, task_lock)
            reason = self._remove_branch(task, branch, landed, rescued) if branch else None
            if branch and reason is None:
                rescued += self._drop_done_heads(task, landed)
            self._trees.locks.forget(task)
        removed_branch = branch if branch and not reason else None
        return Removed(
            tree.path if tree else None, removed_branch, list(dict.fromkeys(rescued)), reason
        )

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
            for inner_tree in inner:
                check_within(self.place, tree, inner_tree, keeps_files=keeps_files)
            for repository in repositories_within(tree, inner):
                unpushed_of(repository)

    def _within(self, tree: LinkedTree) -> list[LinkedTree]:
        """Return the work trees in the folder of a tree, the innermost first."""
        within = trees_within(tree, self._trees.read())
        return sorted(within, key=lambda other: -len(other.path))

    def _lost_within(
        self, task: str, tree: LinkedTree, inner: list[LinkedTree], keeps_files: bool
    ) -> list[str]:
        """Return the commits that would be lost with what lies in the folder of a tree.

        Those of repositories by themselves are brought here.

        Raises:
            Refused: the tree has to stay.
        """
        lost = []
        for inner_tree in inner:
            head = check_within(self.place, tree, inner_tree, keeps_files=keeps_files)
            lost += self._rescue.endangered(inner_tree.admin, None)
            lost += [] if head is None else [self._rescue.files_of(task, inner_tree, head)]
        repositories = repositories_within(tree, inner)
        unpushed = [(repository, unpushed_of(repository)) for repository in repositories]
        for repository, commits in unpushed:
            if commits:
                bring(self.place, repository, commits)
                lost += commits
        return lost

    def _files(self, task: str, tree: LinkedTree, keeps_files: bool) -> list[str]:
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

    def _refuse_use(self, tree: LinkedTree) -> None:
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
        self, task: str, tree: LinkedTree, inner: list[LinkedTree], files: list[str], task_lock: int
    ) -> None:
        """Remove a tree whose content is committed or kept, and the trees within it first."""
        with self._trees.locks.of_all() as list_lock:
            if tree.lock is not None:
                self.place.git.run("worktree", "unlock", tree.path)
            for commit in files:
                self._refuse_changed(task, tree, commit)
            for inner_tree in inner:  # all of it was looked at, and is kept where it would be lost
                remove = ("worktree", "remove", "--force", inner_tree.path)
                self.place.git.run(*remove, limit_s=_LIMIT_S, pass_fds=(task_lock, list_lock))
            # By force alone git removes one that has submodules, kept files, or no index yet.
            force = ("--force",) if files or _needs_force(tree) else ()
            command = ("worktree", "remove", *force, tree.path)
            self.place.git.run(*command, limit_s=_LIMIT_S, pass_fds=(task_lock, list_lock))

    def _refuse_changed(self, task: str, tree: LinkedTree, commit: str) -> None:
        """Refuse to delete files that changed since they were kept."""
        now = self._rescue.files_of(task, tree, f"{commit}^")
        trees = [f"{state}^{{tree}}" for state in (commit, now)]
        if len(set(self.place.git.describe(*trees))) != 1:
            raise Refused(f"somebody is at work in {tree.path}: its files changed meanwhile")

    def _remove_branch(
        self, task: str, branch: str, landed: Collection[str], rescued: list[KeptCommit]
    ) -> str | None:
        """Delete a branch unless it has moved since the look; return why it stays, or None."""
        ref = self.place.branch_ref(branch)
        head = self.place.git.commit(ref)
        if head is None:
            return None
        if (at := checked_out_at(self.place, branch, self._trees.read())) is not None:
            return f"it is checked out at {at}"
        rescued += self._rescue.keep(task, self._rescue.endangered(None, branch, landed))
        try:
            self.place.git.run("update-ref", "-d", ref, head, limit_s=_LIMIT_S)
        except CommandFailed as error:
            return f"it was moved meanwhile ({error.reason})"
        if is_plain_file(os.path.join(self.place.common_dir, "config")):  # git writes through links
            with suppress(CommandFailed):  # most have no settings
                self.place.git.run("config", "--remove-section", f"branch.{branch}")
        return None

    def _drop_done_heads(self, task: str, landed: Collection[str]) -> list[KeptCommit]:
        """Delete the refs of done heads; rescue the commits that nothing else has."""
        done = self._done.of_task(task)
        commits = [head.commit for head in done]
        rescued = self._rescue.keep(task, self._rescue.endangered(None, None, landed, commits))
        self._done.drop(done)
        return rescued


def _refuse_dirt(tree: LinkedTree, state: TreeState, keeps_files: bool) -> str | None:
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


def is_begun(tree: LinkedTree) -> bool:
    """Whether a tree is half-created, without files. It was never assigned."""
    return not tree.is_made and not os.path.exists(os.path.join(tree.admin, "index"))


def _needs_force(tree: LinkedTree) -> bool:
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


def _refuse_unpushed_submodules(tree: LinkedTree) -> None:
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


def _refuse_unpushed(git: SealedRepository, name: str, tree: LinkedTree) -> None:
    if tips_on_no_remote(git):
        raise Refused(
            f"submodule {shown(name)} of {tree.path} has commits that no remote has; push them"
            " first"
        )
