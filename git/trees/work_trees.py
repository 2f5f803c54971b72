"""Work trees for tasks: each on a branch of its own, made so that a kill at any step can be mended.

Git knows the tree first, locked and marked as the task's; only then the branch is made. So whatever
a kill leaves says whose it is, and a repetition goes on from there. A branch or a tree of somebody
else is never touched.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from ...schema.directory.enclosure import Enclosure
from ...schema.directory.ignoring import IGNORING
from ...schema.errors import InvalidInput, Refused, shown
from ..branches.repositories import NOTHING, RepositoryPlace, repository_at
from ..limited import ProgramNotStarted, run_guarded
from ..repository import (
    UNATTENDED,
    CommandFailed,
    GitFailed,
    OutOfTime,
    is_missing,
    is_whole_id,
    read_small,
    replace_text,
)
from .tree_list import (
    WAIT_S,
    LinkedTree,
    NameTaken,
    TreeLocks,
    TreeNote,
    admin_of,
    checked_out_at,
    mark_of,
    read_trees,
    safe_name,
    usage_of,
    write_note,
)
from .tree_state import (
    PATIENT,
    complete_begun,
    drop_dead_branch_lock,
    drop_stubs,
    drop_stump,
    is_empty_folder,
    mend,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...workers.processes.own_child import StopSwitch
    from ..repository import Repository

# Files of a new work tree beside those of git: copies from the main one, a set-up command.
#
# Both come from the user. A file that is in the new tree already stays as it is.


class SetupFailed(GitFailed):
    """The set-up command of a new work tree failed, or reached its time limit."""


def check_copies(main: str, patterns: Sequence[str]) -> None:
    """Check the globs of files to copy.

    Raises:
        InvalidInput: a pattern leads out of the main work tree, or into `.git`.
    """
    for pattern in patterns:
        if not pattern or os.path.isabs(pattern) or {"..", ".git"} & set(pattern.split("/")):
            raise InvalidInput(f"{shown(pattern)} is no glob of files below {main}")


def copy_files(main: str, tree: str, patterns: Sequence[str]) -> list[str]:
    """Copy files of the main work tree that git does not have, as `.env`; return their names.

    Args:
        main: the main work tree.
        tree: the new one.
        patterns: globs below the main one; `**` is any number of folders.

    Raises:
        InvalidInput: a pattern leads out of the main work tree, or into `.git`.
        Refused: a file can't be copied, or a link on its way leaves its work tree.
    """
    check_copies(main, patterns)
    copied = []
    for pattern in patterns:
        names = glob.glob(pattern, root_dir=main, recursive=True, include_hidden=True)
        copied += [name for name in sorted(names) if _copy(main, tree, name)]
    return copied


def _copy(main: str, tree: str, name: str) -> bool:
    source, target = os.path.join(main, name), os.path.join(tree, name)
    is_of_git = ".git" in name.split("/")
    if is_of_git or not os.path.isfile(source) or os.path.lexists(target):
        return False
    try:
        # The branch may have a link there: neither side of the copy leaves its work tree.
        with Enclosure(main).spot(name) as there, Enclosure(tree).spot(name, make=0o777) as spot:
            status, data = there.look(), there.read()
            if status is not None and data is not None:
                spot.replace(data, mode=stat.S_IMODE(status.st_mode))
    except OSError as error:
        raise Refused(f"{source} can't be copied to {tree}: {error.strerror}") from error
    return True


def run_setup(
    command: str | Sequence[str],
    tree: str,
    environment: Mapping[str, str],
    limit_s: float,
    stop: StopSwitch | None = None,
) -> None:
    """Run the set-up in a new work tree: a line for the shell, or the words of a command.

    Raises:
        SetupFailed: it failed, can't be started, or reached its limit.
        ProgramStopped: the switch was thrown before it had ended.
    """
    words = ("sh", "-c", command) if isinstance(command, str) else command
    shell = command if isinstance(command, str) else " ".join(command)
    try:
        ended = run_guarded(words, folder=tree, environment=environment, limit_s=limit_s, stop=stop)
    except ProgramNotStarted as error:
        raise SetupFailed(f"set-up {shown(shell)} can't be started: {error}") from error
    if ended is None:
        raise SetupFailed(f"set-up {shown(shell)} has not ended within {limit_s:g} s")
    if ended.code:
        output = (ended.err or ended.out).decode("utf-8", "replace").strip().splitlines()
        last = f": {output[-1]}" if output else ""
        raise SetupFailed(f"set-up {shown(shell)} failed with exit code {ended.code}{last}")


#: Settings of git: the folder of all trees, how many there may be, and how many bytes they may take
#: before another is made.
FOLDER_SETTING, LIMIT_SETTING, BYTES_SETTING = (
    "ackbus.trees",
    "ackbus.maxTrees",
    "ackbus.maxTreesBytes",
)

#: All that the folder of all trees has besides them, so that git ignores what is in it.
_IGNORED = "*\n"

#: The value of a setting that is a number, as git writes it.
_NUMBER = re.compile(r"([0-9]{1,18})([kmg]?)")

#: How many trees of tasks a repository has at most.
MAX_TREES = 100

#: How long git waits for a ref that another git changes, and no process in the background.
_PATIENT = (*PATIENT, "-c", "core.fsmonitor=false")


@dataclass(frozen=True, slots=True)
class NewTree:
    """A work tree to make.

    Attributes:
        task: the task that gets the tree.
        branch: its branch, which is made.
        base: the id of the commit that the branch begins at.
        path: where it will be; None is the folder of all trees.
        is_known: whether the branch, if it is there, is known to be the task's.
        copies: globs of files of the main work tree that are copied.
        setup: what is run in the new tree: a line for the shell, or the words of a command; empty
            is nothing.
        environment: variables for it.
        has_hooks: whether the hook `post-checkout` is run.
        has_submodules: whether submodules are initialised.
        has_large_files: whether Git LFS fetches the contents of its files.
        limit_s: how long each of checkout, hook and set-up may take.
        bus: the directory of the bus that has the task, which is noted; None: it is not known.
        stop: ends hook and set-up early.
    """

    task: str
    branch: str
    base: str
    path: str | None = None
    is_known: bool = False
    copies: tuple[str, ...] = ()
    setup: str | tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    has_hooks: bool = True
    has_submodules: bool = False
    has_large_files: bool = True
    limit_s: float = 600.0
    bus: str | None = None
    stop: StopSwitch | None = None

    def note(self, *, is_made: bool) -> TreeNote:
        """Return the note about the tree."""
        return TreeNote(self.task, self.branch, self.base, is_made, self.bus)


class WorkTrees:
    """The work trees of a repository that belong to tasks.

    Args:
        place: the repository.
        wait_s: how long another process that makes or removes a tree is waited for.
        is_looking: whether the trees are only looked at, so that nothing is written.

    Attributes:
        place: the repository.
        is_looking: whether nothing is written.
        locks: its locks.
    """

    def __init__(
        self, place: RepositoryPlace, wait_s: float = WAIT_S, *, is_looking: bool = False
    ) -> None:
        self.place = place
        self.is_looking = is_looking
        self.locks = TreeLocks(place.common_dir, wait_s, is_looking=is_looking)

    @property
    def folder(self) -> str:
        """The folder of all trees: beside the main one, or what `ackbus.trees` says."""
        main = self.place.main
        setting = self.place.setting(FOLDER_SETTING)
        folder = os.path.join(main, setting) if setting else main.removesuffix(".git") + ".trees"
        return os.path.realpath(folder)

    def path_of(self, task: str) -> str:
        """Return where the tree of a task is made unless told otherwise."""
        return os.path.join(self.folder, safe_name(task))

    def read(self) -> list[LinkedTree]:
        """Return the linked trees of the repository, those of others included.

        Git can't list them while one is being added.
        """
        with self.locks.of_all():
            return self._read_held()

    def _read_held(self) -> list[LinkedTree]:
        if not self.is_looking:
            complete_begun(self.place)
        return read_trees(self.place)

    def all(self) -> list[LinkedTree]:
        """Return the trees of all tasks, unfinished ones included."""
        return [tree for tree in self.read() if tree.is_ours]

    def of(self, task: str) -> LinkedTree | None:
        """Return the tree of a task, or None."""
        return next((tree for tree in self.read() if tree.is_of(task)), None)

    def make(self, new: NewTree) -> LinkedTree:
        """Make the tree and the branch of a task. Safe to repeat: it is mended, or left as it is.

        Raises:
            InvalidInput: a name can't be one of a branch or a task, the base is no whole id, or a
                glob leads elsewhere.
            Refused: there are too many trees; as `NameTaken`: the branch or the path is somebody
                else's. Nothing was made.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
            ProgramStopped: hook or set-up was ended early; a repetition goes on from there.
            TreeBusy: another process is making it.
        """
        self.place.branch_ref(new.branch)
        if not is_whole_id(new.base):  # of a row, perhaps: git would take lines and options from it
            raise InvalidInput(f"base {shown(new.base)} is not the whole id of a commit")
        check_copies(self.place.main, new.copies)
        with self.locks.of_task(new.task) as task_lock:
            tree = self._claim(new, task_lock)
            if not tree.is_made:
                self._fill(tree, new, task_lock)
            if tree.note is None or not tree.note.is_made:
                write_note(tree.admin, new.note(is_made=True))
            made_tree = self.of(new.task)
        assert made_tree is not None, new.task
        return made_tree

    def _claim(self, new: NewTree, task_lock: int) -> LinkedTree:
        """Return the task's tree, known to git and on its branch."""
        with self.locks.of_all() as list_lock:
            trees = self._read_held()
            tree = next((tree for tree in trees if tree.is_of(new.task)), None)
            if tree is None:
                tree = self._add(new, trees, (task_lock, list_lock))
            elif tree.note is not None and tree.note.branch != new.branch:
                raise Refused(
                    f"task {shown(new.task)} has its tree on branch {shown(tree.note.branch)},"
                    f" at {tree.path}; name that branch"
                )
            else:
                mend(tree, new.base, new.limit_s)
            if tree.lock is None:
                self._lock(tree, new.task)
            if not tree.is_made and tree.note is None:
                self._attach(tree, new)
                write_note(tree.admin, new.note(is_made=False))
        return tree

    def _add(self, new: NewTree, trees: list[LinkedTree], locks: tuple[int, ...]) -> LinkedTree:
        folder, name = os.path.split(new.path or self.path_of(new.task))
        path = os.path.join(os.path.realpath(folder), name)
        drop_stump(self.place, path)
        head = self._head_of_branch(new)
        self._refuse_taken(new, head, path, trees)
        if head is None:
            self._rehearse(new, locks)
        start = head if head is not None else new.base
        drop_stubs(self.place, new.task)
        self.make_folder(os.path.dirname(path))
        options = ("--quiet", "--detach", "--no-checkout", "--lock", "--reason", mark_of(new.task))
        command = (*_PATIENT, "worktree", "add", *options, path, start)
        self.place.git.run(*command, limit_s=new.limit_s, pass_fds=locks)
        admin = admin_of(path)
        return LinkedTree(path, admin, start, None, mark_of(new.task), None)

    def _refuse_taken(
        self, new: NewTree, head: str | None, path: str, trees: list[LinkedTree]
    ) -> None:
        """Refuse what is somebody else's, and what git refuses, before anything is made."""
        if head is not None and not new.is_known:
            raise NameTaken(
                f"branch {shown(new.branch)} is there already, at {head[:12]}; name another branch"
            )
        if (at := checked_out_at(self.place, new.branch, trees)) is not None:
            raise Refused(f"branch {shown(new.branch)} is checked out at {at}; name another branch")
        if any(tree.path == path for tree in trees):
            raise NameTaken(f"{path} is a work tree of somebody else; name another path")
        if os.path.lexists(path) and not is_empty_folder(path):
            raise NameTaken(f"{path} is there already and has something in it; name another path")
        self._refuse_too_many([tree for tree in trees if tree.is_ours])

    def _rehearse(self, new: NewTree, locks: tuple[int, ...]) -> None:
        """Rehearse the making of a branch: git refuses now what it would refuse later.

        Raises:
            NameTaken: a branch has a name above or below that of the new one.
            GitFailed: git, or a hook of it, refuses for another reason.
        """
        ref = self.place.branch_ref(new.branch)
        parts = ref.split("/")
        above = ["/".join(parts[:count]) for count in range(3, len(parts))]
        answer = self.place.git.run("for-each-ref", "--format=%(refname)", *above, ref)
        for name in os.fsdecode(answer).splitlines():
            if name in above or name.startswith(f"{ref}/"):
                there = shown(name.removeprefix("refs/heads/"))
                raise NameTaken(
                    f"branch {shown(new.branch)} can't be made beside branch {there}: git keeps one"
                    " as a folder of the other; name another branch"
                )
        steps = f"start\ncreate {ref} {new.base}\nprepare\nabort\n"
        command = ("update-ref", "--stdin")
        self._create(self.place.git, new, *command, stdin=os.fsencode(steps), pass_fds=locks)

    def _create(
        self,
        git: Repository,
        new: NewTree,
        *command: str,
        stdin: bytes = b"",
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        """Run the git that makes the branch; a lock that a kill left on the branch is removed."""
        run = partial(
            git.run, *_PATIENT, *command, stdin=stdin, limit_s=new.limit_s, pass_fds=pass_fds
        )
        try:
            run()
        except CommandFailed as error:
            if drop_dead_branch_lock(self.place, self.place.branch_ref(new.branch), new.base):
                run()
                return
            raise GitFailed(f"branch {shown(new.branch)} can't be made: {error.reason}") from error

    def _refuse_too_many(self, own: list[LinkedTree]) -> None:
        """Refuse a new tree at the limit of the number or the size of all trees."""
        most = self._limit(LIMIT_SETTING)
        if len(own) >= (MAX_TREES if most is None else most):
            raise Refused(
                f"{self.place.main} has {len(own)} work trees of tasks, which is the limit; clean"
                f" some, or raise it with 'git config {LIMIT_SETTING} N'"
            )
        most_bytes = self._limit(BYTES_SETTING)
        if most_bytes is not None and (taken := usage_of(own).bytes) >= most_bytes:
            raise Refused(
                f"the work trees of tasks in {self.place.main} take {taken} bytes, of at most"
                f" {most_bytes}; clean some, or raise it with 'git config {BYTES_SETTING} N'"
            )

    def _limit(self, name: str) -> int | None:
        """Return a setting of git that is a number; `k`, `m` and `g` after it stand for powers."""
        value = self.place.text(name)
        if value is None:
            return None
        match = _NUMBER.fullmatch(value.lower())
        if match is None:
            raise InvalidInput(f"git's setting {name} must be a number, not {shown(value)}")
        return int(match[1]) << (10 * " kmg".index(match[2] or " "))

    def _head_of_branch(self, new: NewTree) -> str | None:
        return self.place.git.commit(f"refs/heads/{new.branch}")

    def make_folder(self, folder: str) -> None:
        """Make the folder of all trees; a work tree around it ignores what is in it."""
        setting = self.place.setting(FOLDER_SETTING)
        main = os.path.realpath(self.place.main)
        if setting and not os.path.isabs(setting) and _leaves(main, setting, self.folder):
            raise Refused(
                f"{os.path.join(main, setting)} leads out of {main} by a link: put a folder in its"
                f" place, or name another one with 'git config {FOLDER_SETTING} FOLDER'"
            )
        try:
            os.makedirs(folder, exist_ok=True)
            ignoring = os.path.join(folder, ".gitignore")
            if folder == self.folder and is_missing(ignoring):
                replace_text(ignoring, _IGNORED, 0o644)
        except OSError as error:
            raise Refused(
                f"{folder} can't be made for work trees: {error.strerror}; name another folder"
                f" with 'git config {FOLDER_SETTING} FOLDER'"
            ) from error

    def drop_empty_folder(self) -> None:
        """Remove the folder of all trees if only our `.gitignore` is left in it.

        One that somebody chose, by the setting, stays. The caller holds the lock of all trees.
        """
        if self.place.setting(FOLDER_SETTING):
            return
        ignoring = os.path.join(self.folder, IGNORING)
        with suppress(OSError, GitFailed):
            if os.listdir(self.folder) != [IGNORING] or read_small(ignoring) != _IGNORED:
                return
            os.unlink(ignoring)
            try:
                os.rmdir(self.folder)
            except OSError:  # somebody put a file there just now
                replace_text(ignoring, _IGNORED, 0o644)

    def _lock(self, tree: LinkedTree, task: str) -> None:
        self.place.git.run("worktree", "lock", "--reason", mark_of(task), tree.path)

    def _attach(self, tree: LinkedTree, new: NewTree) -> None:
        """Put a new tree on its branch: first its head, which claims the name, then the branch."""
        there = self._head_of_branch(new)
        is_own = new.is_known or (tree.branch == new.branch and there == new.base)
        if there is not None and not is_own:
            raise Refused(f"branch {shown(new.branch)} is somebody else's by now; name another")
        git = repository_at(tree.path)
        ref = self.place.branch_ref(new.branch)
        git.run("symbolic-ref", "HEAD", ref, limit_s=new.limit_s)  # a hook of git may hang
        if there is not None:
            return
        self._create(git, new, "update-ref", "-m", mark_of(new.task), ref, new.base, NOTHING)

    def _fill(self, tree: LinkedTree, new: NewTree, task_lock: int) -> None:
        """Fill a new tree; hooks and set-up, programs of the user, run here."""
        git = repository_at(tree.path, {} if new.has_large_files else {"GIT_LFS_SKIP_SMUDGE": "1"})
        reset = ("reset", "--hard", "--quiet", "--no-recurse-submodules")
        try:
            git.run(*_PATIENT, *reset, limit_s=new.limit_s, pass_fds=(task_lock,))
        except CommandFailed as error:
            if b"git-lfs" in error.stderr and shutil.which("git-lfs") is None:
                raise GitFailed(
                    f"{self.place.main} has large files, and git-lfs is not installed; install it,"
                    " then try again"
                ) from error
            raise
        if new.has_hooks and self.place.has_hook("post-checkout"):
            _run_hook(git, new)
        if new.has_submodules:
            update = ("submodule", "update", "--init", "--recursive", "--quiet")
            git.run(*update, limit_s=new.limit_s)
        if new.copies and not self.place.is_bare:
            copy_files(self.place.main, tree.path, new.copies)
        if new.setup:
            inherited = {key: value for key, value in os.environ.items() if key not in UNATTENDED}
            variables = {**inherited, **new.environment}
            run_setup(new.setup, tree.path, variables, new.limit_s, new.stop)


def _leaves(main: str, setting: str, real: str) -> bool:
    """Whether a folder that is set within a work tree really lies elsewhere."""
    within = os.path.join(main, "")
    return os.path.normpath(os.path.join(main, setting)).startswith(within) and not real.startswith(
        within
    )


def _run_hook(git: Repository, new: NewTree) -> None:
    """Run `post-checkout` as git does it in a new work tree."""
    head = git.run("rev-parse", "HEAD").decode().strip()
    hook = ("hook", "run", "--ignore-missing", "post-checkout", "--")
    try:
        arguments = ("0" * len(head), head, "1")
        git.run_guarded(*hook, *arguments, limit_s=new.limit_s, stop=new.stop)
    except CommandFailed as error:
        raise GitFailed(f"the hook post-checkout failed: {error.reason}") from error
    except OutOfTime as error:
        raise OutOfTime(f"the hook post-checkout has not ended within {new.limit_s:g} s") from error
