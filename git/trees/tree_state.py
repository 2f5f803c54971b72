"""The state of a work tree: its head, what is not committed, what is under way or left over."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace

from ...schema.errors import Refused
from ...schema.process_table import is_running
from ..branches.repositories import repository_at
from ..repository import GitFailed, is_missing, read_small, replace_text
from ..sealed import sealed_tree
from .tree_list import CHECK_MARK, admin_folders, admin_of, is_check, is_marked, mark_of, read_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..branches.repositories import RepositoryPlace
    from ..repository import Repository
    from .tree_list import LinkedTree
    from .work_trees import WorkTrees

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
        """Return why the tree is not clean, in words; at most ten files are named."""
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


def repository_of(tree: LinkedTree, extra: dict[str, str | None] | None = None) -> Repository:
    """Return git in a work tree, with the repository that lists the tree.

    The tree's own `.git` is not trusted: a program that works there may have replaced it.
    """
    return repository_at(
        tree.path, {"GIT_DIR": tree.admin, "GIT_WORK_TREE": tree.path, **(extra or {})}
    )


def read_state(tree: LinkedTree, base: str | None = None) -> TreeState:
    """Return the state of a work tree; nothing is changed there.

    Nothing that a nested repository configures is run.

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


def _is_dirty(tree: LinkedTree, name: str) -> bool:
    """Whether a repository by itself has something that is not committed, by a sealed view."""
    path = os.path.join(tree.path, name)
    git_dir = os.path.realpath(_git_dir_in(path) or os.path.join(path, ".git"))
    options = ("--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
    return bool(sealed_tree(git_dir, git_dir, path).run("status", *options))


def look_at_state(common_dir: str, tree: LinkedTree) -> TreeState:
    """Return the state of a work tree, as `read_state` does, and run nothing of the repository.

    A file with a filter of the repository counts as changed where git would store it otherwise. In
    a submodule only the commit is looked at.

    Raises:
        GitFailed: there is no work tree, or git can't look into it.
    """
    return _read(sealed_tree(common_dir, tree.admin, tree.path), tree.admin, None, "dirty")


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
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    head = None if headers["branch.oid"] == "(initial)" else headers["branch.oid"]
    branch = None if headers["branch.head"] == "(detached)" else headers["branch.head"]
    return TreeState(
        head=head,
        branch=branch,
        changed=[_file(line) for line in lines if line[:2] in ("1 ", "2 ", "u ")],
        untracked=[line[2:] for line in lines if line.startswith("? ")],
        operation=operation_at(git_dir),
        ahead=_count(git, head, git.commits([base])[0] or head) if head and base else 0,
        unpushed=_count(git, head, "--remotes") if head else 0,
    )


def embedded_in(tree: LinkedTree) -> list[str]:
    """Return the folders of a work tree that are repositories by themselves, and in its index.

    Git has only the id of their commit. The commit itself is in the folder, and goes with it; or in
    a repository elsewhere, but for those that git keeps for submodules.
    """
    entries = repository_of(tree).run("ls-files", "--stage", "-z").split(b"\0")
    links = (os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry[:6] == b"160000")
    return [name for name in links if _is_by_itself(tree, os.path.join(tree.path, name))]


def stage_all(git: Repository, embedded: list[str], limit_s: float) -> None:
    """Stage all that is in a work tree and not ignored; of repositories by themselves the commit.

    For uncommitted files in a nested one, `git add` would run a git there, with the
    configuration of that repository.

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


def _is_by_itself(tree: LinkedTree, path: str) -> bool:
    if not os.path.lexists(os.path.join(path, ".git")):
        return False
    git_dir = _git_dir_in(path)
    common_dir = os.path.dirname(os.path.dirname(tree.admin))
    module_folders = [
        os.path.realpath(os.path.join(folder, "modules")) for folder in (tree.admin, common_dir)
    ]
    return git_dir is None or not os.path.realpath(git_dir).startswith(
        tuple(f"{folder}{os.sep}" for folder in module_folders)
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


def _count(git: Repository, head: str, base: str) -> int:
    answer = git.run("rev-list", "--count", head, "--not", base, "--")
    return int(answer)


# Mend the work trees of tasks: what a kill left half made, and folders that were deleted by hand.
#
# Git's own folder of a tree has its head, its index and the history of its head. So a tree whose
# files were deleted comes back as it was staged.

#: How long git waits for the lock of a ref, in seconds; a git that lives has one for a moment.
REF_WAIT_S = 10

#: The settings by which git waits so long for a ref that another git changes.
PATIENT = (
    *("-c", f"core.filesRefLockTimeout={REF_WAIT_S * 1000}"),
    *("-c", f"core.packedRefsTimeout={REF_WAIT_S * 1000}"),
)

#: A head without a commit, as git writes it for a tree that is being made.
_NO_HEAD = "ref: refs/heads/.invalid"


def mend(tree: LinkedTree, base: str, limit_s: float) -> None:
    """Give a tree all that git needs there; the caller holds its locks.

    Args:
        tree: of ours.
        base: the commit that it begins at, for one whose making was cut off.
        limit_s: how long bringing back its files may take.

    Raises:
        Refused: there is something else at its path. Git writes `.git` before any other file, so
            a folder with files and without that may be anybody's, and git would delete it later.
    """
    drop_dead_locks(tree)
    _write_missing(os.path.join(tree.admin, "commondir"), "../..")
    _write_missing(os.path.join(tree.admin, "HEAD"), base)
    if tree.is_there:
        return
    if os.path.lexists(tree.path) and not is_empty_folder(tree.path):
        raise Refused(f"{tree.path} is not the work tree that git knows there any more; move it")
    os.makedirs(tree.path, exist_ok=True)
    _write_missing(os.path.join(tree.path, ".git"), f"gitdir: {tree.admin}")
    if tree.is_made:
        repository_of(tree).run("checkout-index", "--all", "--quiet", limit_s=limit_s)


def complete_begun(place: RepositoryPlace) -> None:
    """Complete the files that a killed git had begun to write for trees of ours.

    The caller holds the lock of all trees. With one of these empty, git lists no tree at all.
    """
    for admin in admin_folders(place.common_dir):
        lock = read_lock(admin)
        if is_missing(os.path.join(admin, "gitdir")):
            continue
        if is_marked(lock) or is_check(lock):
            _write_missing(os.path.join(admin, "commondir"), "../..")
        if is_check(lock):  # without a head git would not even remove it
            _write_missing(os.path.join(admin, "HEAD"), _NO_HEAD)


def drop_stubs(place: RepositoryPlace, task: str) -> None:
    """Remove folders of git's that a kill left before they had a path; the caller holds all locks.

    They have no files but the lock, with which git keeps them for good.
    """
    for admin in admin_folders(place.common_dir):
        if is_missing(os.path.join(admin, "gitdir")) and read_lock(admin) == mark_of(task):
            for name in ("gitdir", "locked"):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(admin, name))
            with suppress(OSError):  # not empty: git prunes it
                os.rmdir(admin)


def drop_stump(place: RepositoryPlace, path: str) -> None:
    """Empty a folder of a tree that has nothing but a `.git`, whose folder of git's is gone.

    A git that fails removes that folder first, and may be killed before the other.
    """
    if not os.path.isdir(path) or os.path.islink(path) or os.listdir(path) != [".git"]:
        return
    dot_git = os.path.join(path, ".git")
    if os.path.isfile(dot_git):
        admin = admin_of(path)
        is_of_place = os.path.dirname(admin) == os.path.join(place.common_dir, "worktrees")
        if is_of_place and is_missing(os.path.join(admin, "gitdir")):
            os.unlink(dot_git)


def drop_dead_locks(tree: LinkedTree) -> None:
    """Remove locks of git in an unfinished tree; the caller holds the lock of its task.

    No git but ours has been there, and each of ours has the task's lock as long as it runs. A lock
    in a finished tree is somebody's, and stays.
    """
    if not tree.is_made:
        for name in ("index.lock", "HEAD.lock"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(tree.admin, name))


def drop_dead_branch_lock(place: RepositoryPlace, ref: str, base: str) -> bool:
    """Remove the lock of a branch that a killed making left; say whether there was one.

    It is for a branch that is not there yet, has at most the commit that we give it, and is older
    than any git needs for a ref.
    """
    path = os.path.join(place.common_dir, f"{ref}.lock")
    try:
        is_ours = read_small(path).strip() in ("", base)
        made_s = os.stat(path).st_mtime  # of the one that was read, or of a newer one
    except (FileNotFoundError, GitFailed):
        return False
    with tempfile.TemporaryFile(dir=place.common_dir) as fresh:  # by the clock that timed the lock
        is_old = os.fstat(fresh.fileno()).st_mtime - made_s > REF_WAIT_S
    if is_ours and is_old:
        os.unlink(path)
    return is_ours and is_old


def is_empty_folder(path: str) -> bool:
    """Whether a path is an empty folder, not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)


def _write_missing(path: str, line: str) -> None:
    """Write a file of git's that it would have written next, or had begun to."""
    if is_missing(path):
        replace_text(path, line + "\n", 0o644)


# Leftovers of the work trees of tasks. Nothing is changed here.

#: A process in the reason of a lock, as other tools write it.
_PID = re.compile(r"\bpid[ :=]*([1-9][0-9]{0,9})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A remainder of work that is probably not needed any more.

    Attributes:
        kind: `folder`, `stub`, `unfinished`, `deleted`, `index_lock`, `dead_lock`,
            or `check`.
        path: where it is.
        says: what it is, and what can be done.
        task: the task whose tree it is, or None.
    """

    kind: str
    path: str
    says: str
    task: str | None = None


def find_leftovers(trees: WorkTrees) -> list[Leftover]:
    """Return what was left in a repository, and in the folder of its trees."""
    listed = trees.read()
    return [
        *_strange_folders(trees.folder, {os.path.realpath(tree.path) for tree in listed}),
        *_stubs(trees.place.common_dir),
        *(leftover for tree in listed for leftover in _of_tree(tree)),
        *_check_trees(trees, listed),
    ]


def _strange_folders(folder: str, tree_folders: set[str]) -> Iterator[Leftover]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(folder, name)
        if name != ".gitignore" and os.path.realpath(path) not in tree_folders:
            says = f"{path} is no work tree that git knows; look at it, then delete it by hand"
            yield Leftover("folder", path, says)


def _stubs(common_dir: str) -> Iterator[Leftover]:
    for admin in admin_folders(common_dir):
        if is_marked(read_lock(admin)) and not os.path.lexists(os.path.join(admin, "gitdir")):
            says = f"{admin} was left by a kill, and has nothing; spawn the task again or delete it"
            yield Leftover("stub", admin, says)


def _check_trees(trees: WorkTrees, listed: list[LinkedTree]) -> Iterator[Leftover]:
    for tree in listed:
        reason = tree.lock or ""
        if is_check(reason) and not trees.locks.is_target_held(reason.removeprefix(CHECK_MARK)):
            says = f"{tree.path} was left by an integrator that was killed; the next one removes it"
            yield Leftover("check", tree.path, says)


def _of_tree(tree: LinkedTree) -> Iterator[Leftover]:
    task = tree.note.task if tree.note else None
    if not tree.is_ours:
        if (pid := _dead_process(tree.lock)) is not None:
            says = f"{tree.path} is locked for process {pid}, which is gone; 'git worktree unlock'"
            yield Leftover("dead_lock", tree.path, says)
        return
    if not tree.is_made:
        says = f"{tree.path} was never finished; spawn the task again, or clean it by its name"
        yield Leftover("unfinished", tree.path, says, task)
    elif not tree.is_there:
        says = f"{tree.path} was deleted by hand; spawn the task again, or clean it"
        yield Leftover("deleted", tree.path, says, task)
    if os.path.lexists(lock := os.path.join(tree.admin, "index.lock")):
        says = f"{lock} is there: a git is at work in {tree.path}, or was killed there"
        yield Leftover("index_lock", lock, says, task)


def _dead_process(reason: str | None) -> int | None:
    """Return the process that a lock's reason names, if that process has ended."""
    match = _PID.search(reason or "")
    if match is None or is_running(int(match[1])):
        return None
    return int(match[1])
