"""The work trees of a repository: names and locks, who is in them, and which task has them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ...schema.directory.file_lock import is_locked
from ...schema.directory.lock_holders import holders, is_inherited
from ...schema.errors import InvalidInput, Refused, TimedOut, shown
from ...schema.process_table import process_ids
from ..repository import GitFailed, read_small, replace_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..branches.repositories import RepositoryPlace

# Names made of the name of a task: of a folder, of refs, and the mark on its tree.

#: How long such a name for a folder or a ref may be, in bytes.
_MAX_BYTES = 120

#: The beginning of the reason of git's lock on a tree of ours.
_MARK = "ackbus task "

#: The same for the tree in which a branch's candidates are checked.
CHECK_MARK = "ackbus check "


def safe_name(task: str) -> str:
    """Return a name for a file, and for a part of a ref, that no other task has.

    Letters and digits of any script stay, and so do `-`, `_` and `.` where neither a shell, git nor
    a filesystem reads anything else into them; all others become `%` and their bytes.

    Raises:
        InvalidInput: the task has no name.
    """
    if not task or "\0" in task:
        raise InvalidInput(f"{shown(task)} can be no name of a task")
    parts = []
    for at, char in enumerate(task):
        is_plain = char.isalnum() or char == "_" or (char == "-" and at > 0)
        is_inner_dot = char == "." and 0 < at < len(task) - 1 and task[at + 1] != "."
        if is_plain or (is_inner_dot and task[at:].casefold() != ".lock"):
            parts.append(char)
        else:
            parts += [f"%{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
    name = "".join(parts)
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) <= _MAX_BYTES:
        return name
    digest = hashlib.sha256(task.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return encoded[: _MAX_BYTES - 17].decode("utf-8", "ignore").rstrip("%.") + f"%{digest}"


def mark_of(task: str) -> str:
    """Return the reason that git gives for the lock of a task's tree; it says whose it is."""
    return _MARK + safe_name(task)


def is_marked(reason: str | None) -> bool:
    """Whether the reason of a lock says that the tree is a task's."""
    return reason is not None and reason.startswith(_MARK)


def is_check(reason: str | None) -> bool:
    """Whether the reason of a lock says that candidates are checked in the tree."""
    return reason is not None and reason.startswith(CHECK_MARK)


# Locks on a repository's work trees, which git processes of ours hold with us.
#
# Git inherits the descriptor. So when a process of ours is killed, its lock is free only when the
# git that it had started has ended, and what it left is final.

#: The folder of the locks, in the one that all work trees share.
FOLDER = "ackbus"

#: How long a lock is waited for, in seconds: 48 trees at once are made within it.
WAIT_S = 120.0

#: How long a waiter sleeps between two looks, in seconds: at first, and at most.
_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05

#: A link could lead out of the repository, and nobody writes to a pipe.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: Errors of the system for a folder, a link and a socket.
_NO_FILE = (errno.EISDIR, errno.ELOOP, errno.ENXIO)


class TreeBusy(TimedOut):
    """Another process is making or removing the tree, or integrates into the branch.

    Attributes:
        is_orphaned: whether that process has ended, and a git that it had started has not.
    """

    def __init__(self, text: str, *, is_orphaned: bool = False) -> None:
        self.is_orphaned = is_orphaned
        super().__init__(text)


class NameTaken(Refused):
    """A branch or a path belongs to somebody else: another try with the same name fails too."""


class TreeLocks:
    """The locks of a repository.

    Args:
        common_dir: the folder that all its work trees share.
        wait_s: how long a lock is waited for.
        is_looking: makes no lock file; one that is not there counts as free.
    """

    def __init__(
        self, common_dir: str, wait_s: float = WAIT_S, *, is_looking: bool = False
    ) -> None:
        self._folder = os.path.join(common_dir, FOLDER)
        self._wait_s = wait_s
        self._is_looking = is_looking

    @contextmanager
    def of_all(self) -> Iterator[int]:
        """Hold the list of work trees; yields the descriptor, for git to inherit."""
        with self._held("trees.lock") as descriptor:
            yield descriptor

    @contextmanager
    def of_task(self, task: str) -> Iterator[int]:
        """Hold the tree of one task; yields the descriptor, for git to inherit."""
        with self._held(f"task-{safe_name(task)}.lock") as descriptor:
            yield descriptor

    @contextmanager
    def of_target(self, target: str) -> Iterator[int]:
        """Hold a branch that is integrated into; yields the descriptor, for git to inherit."""
        with self._held(f"target-{safe_name(target)}.lock") as descriptor:
            yield descriptor

    def is_target_held(self, name: str) -> bool:
        """Whether somebody holds the lock of `of_target` on the branch of this `safe_name`.

        A lock that is no plain file, or a name that leads elsewhere, can't be held.
        """
        if "/" in name or "\0" in name:
            return False
        path = os.path.join(self._folder, f"target-{name}.lock")
        try:
            with open(self._open(path, os.O_RDONLY), "rb") as file:
                return is_locked(file)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in _NO_FILE:
                return False
            raise GitFailed(f"{path} can't be opened: {error.strerror}") from error

    def forget(self, task: str) -> None:
        """Remove the lock of a task whose tree is gone; the caller holds it."""
        os.unlink(os.path.join(self._folder, f"task-{safe_name(task)}.lock"))

    @contextmanager
    def _held(self, name: str) -> Iterator[int]:
        path = os.path.join(self._folder, name)
        if self._is_looking and not os.path.exists(path):
            yield -1
            return
        self._make_folder()
        deadline = time.monotonic() + self._wait_s
        while (descriptor := self._locked(path, deadline)) is None:
            pass
        try:
            yield descriptor
        finally:
            os.close(descriptor)  # a git that goes on keeps it

    def _make_folder(self) -> None:
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise GitFailed(f"{self._folder} can't be made: {error.strerror}") from error

    def _locked(self, path: str, deadline: float) -> int | None:
        """Return a descriptor with the lock; None: the file was removed while we waited."""
        try:
            descriptor = self._open(path, self._flags())
        except OSError as error:
            why = f"{self._folder} is a link" if os.path.islink(self._folder) else error.strerror
            raise GitFailed(f"{path} can't be opened: {why}") from error
        try:
            self._wait(descriptor, path, deadline)
            if _is_at(descriptor, path):
                locked, descriptor = descriptor, -1
                return locked
            return None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _open(self, path: str, flags: int) -> int:
        """Open the file of a lock; neither that nor its folder may be a link, which leads away."""
        folder = os.open(self._folder, _SAFE | os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.open(os.path.basename(path), _SAFE | flags, 0o666, dir_fd=folder)
        finally:
            os.close(folder)

    def _flags(self) -> int:
        return os.O_RDONLY if self._is_looking else os.O_RDWR | os.O_CREAT

    def _wait(self, descriptor: int, path: str, deadline: float) -> None:
        pause_s = _PAUSE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TreeBusy(
                        f"{path} has been held for {self._wait_s:g} s by {holders_of(path)}; wait,"
                        " or end that if it hangs",
                        is_orphaned=is_inherited(path),
                    ) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def holders_of(path: str) -> str:
    """Return who holds a lock, in words; it may be a git whose starter has ended."""
    return ", ".join(map(str, holders(path))) or "another process, or a git that it started"


def _is_at(descriptor: int, path: str) -> bool:
    """Whether a path still leads to the file of a descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


#: The note, in git's folder of a work tree, which goes with it.
_NOTE = "ackbus.json"


@dataclass(frozen=True, slots=True)
class TreeNote:
    """Our note about a tree of ours.

    Attributes:
        task: the task that has the tree.
        branch: its branch.
        base: the commit that the branch began at.
        is_made: whether all steps of making it are done.
        bus: the directory of the bus that has the task; None: it is not known.
    """

    task: str
    branch: str
    base: str
    is_made: bool
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class LinkedTree:
    """A linked work tree.

    Attributes:
        path: its top.
        admin: git's folder of it.
        head: its commit, or None where it is on a branch without one.
        branch: the branch that is checked out, or None for a detached head.
        lock: the reason of a lock; empty without a reason; None without a lock.
        note: what we note; None for a tree of others, and for one whose making had just begun.
    """

    path: str
    admin: str
    head: str | None
    branch: str | None
    lock: str | None
    note: TreeNote | None

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to a task."""
        return self.note is not None or is_marked(self.lock)

    def is_of(self, task: str) -> bool:
        """Whether it is the tree of this task."""
        return self.note.task == task if self.note else self.lock == mark_of(task)

    @property
    def is_made(self) -> bool:
        """Whether all steps of making it are done, or must be taken for done.

        Without a note, either the making had just begun or the note was lost; only in the
        second case there are files and an index.
        """
        if self.note is not None:
            return self.note.is_made
        return os.path.exists(os.path.join(self.admin, "index"))

    @property
    def is_there(self) -> bool:
        """Whether its folder is there, no link, and leads to git's folder of it.

        Through a link git would delete files elsewhere before it fails.
        """
        return not os.path.islink(self.path) and points_at(self.path, self.admin)


def read_trees(place: RepositoryPlace) -> list[LinkedTree]:
    """Return the linked work trees of a repository, half-created ones included."""
    admins = _admins(place.common_dir)
    raw = place.git.run("worktree", "list", "--porcelain", "-z")
    trees = []
    for record in raw.split(b"\0\0"):
        fields = _fields(record)
        admin = admins.get(fields.get("worktree", ""))
        if admin is not None:
            trees.append(_tree(fields, admin))
    return trees


def checked_out_at(place: RepositoryPlace, branch: str, trees: list[LinkedTree]) -> str | None:
    """Return the work tree that a branch is checked out in, or None; the main one counts."""
    if not place.is_bare and place.default_branch() == branch:
        return place.main
    return next((tree.path for tree in trees if tree.branch == branch), None)


def _tree(fields: dict[str, str], admin: str) -> LinkedTree:
    head = fields.get("HEAD", "")
    return LinkedTree(
        path=fields["worktree"],
        admin=admin,
        head=head if head.strip("0") else None,
        branch=fields["branch"].removeprefix("refs/heads/") if "branch" in fields else None,
        lock=fields.get("locked"),
        note=read_note(admin),
    )


def _fields(record: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(line).partition(" ") for line in record.split(b"\0") if line)
    return {key: value for key, _, value in pairs}


def _admins(common_dir: str) -> dict[str, str]:
    """Return git's folder of each work tree, by the path of the tree."""
    admin_of_file = {}
    for admin in admin_folders(common_dir):
        with suppress(FileNotFoundError):
            admin_of_file[_read_path(os.path.join(admin, "gitdir"), admin)] = admin
    return {path.removesuffix("/.git"): admin for path, admin in admin_of_file.items()}


def admin_folders(common_dir: str) -> list[str]:
    """Return git's folders of all linked work trees, whole or not."""
    folder = os.path.join(common_dir, "worktrees")
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except FileNotFoundError:
        return []


def points_at(path: str, admin: str) -> bool:
    """Whether the `.git` of a work tree leads to this folder of git's."""
    try:
        target = _read_path(os.path.join(path, ".git"), path)
    except (FileNotFoundError, GitFailed):
        return False
    return os.path.realpath(target) == os.path.realpath(admin)


def admin_of(path: str) -> str:
    """Return git's folder of the work tree at a path."""
    return _read_path(os.path.join(path, ".git"), path)


def read_lock(admin: str) -> str | None:
    """Return the reason of a tree's lock, or None where it is not locked."""
    try:
        return read_small(os.path.join(admin, "locked")).strip()
    except FileNotFoundError:
        return None


def _read_path(file: str, relative_to: str) -> str:
    """Read a file of git's that holds a path."""
    text = read_small(file).removesuffix("\n").removeprefix("gitdir: ")
    return os.path.normpath(os.path.join(relative_to, text))


def read_note(admin: str) -> TreeNote | None:
    """Return the note about a tree; None where there is none, or not one of ours."""
    try:
        note = TreeNote(**json.loads(read_small(os.path.join(admin, _NOTE))))
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        return None
    texts = (note.task, note.branch, note.base)
    is_of_ours = all(isinstance(text, str) for text in texts) and isinstance(note.is_made, bool)
    return note if is_of_ours else None


def write_note(admin: str, note: TreeNote) -> None:
    """Write the note about a tree."""
    fields = {name: getattr(note, name) for name in TreeNote.__slots__}
    replace_text(os.path.join(admin, _NOTE), json.dumps(fields) + "\n", 0o644)


# The disk space that work trees take.

#: The size of a block that `st_blocks` counts, in bytes.
_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The disk space that work trees take.

    Attributes:
        trees: how many there are.
        bytes: what their files take on the disk; git's own are shared and not counted.
    """

    trees: int
    bytes: int


def usage_of(trees: list[LinkedTree]) -> DiskUsage:
    """Return the disk space that trees take; a file with several names counts once."""
    counted: set[tuple[int, int]] = set()
    taken = sum(_bytes_below(tree.path, counted) for tree in trees)
    return DiskUsage(len(trees), taken)


def _bytes_below(folder: str, counted: set[tuple[int, int]]) -> int:
    total = 0
    for entry in _entries(folder):
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # somebody is at work there
            continue
        if stat.st_nlink == 1 or (stat.st_dev, stat.st_ino) not in counted:
            counted.add((stat.st_dev, stat.st_ino))
            total += stat.st_blocks * _BLOCK_BYTES
        if entry.is_dir(follow_symlinks=False):
            total += _bytes_below(entry.path, counted)
    return total


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


# Processes that work in a folder, as far as the kernel tells.


def occupants_of(folder: str) -> list[int]:
    """Return the processes that work in a folder; none where the system does not tell."""
    if "\0" in folder:  # a program with its own SQL may have stored any name
        return []
    inside = os.path.realpath(folder)
    occupants = []
    for pid in process_ids():
        with suppress(OSError):  # it has ended, or is another user's
            where = os.readlink(f"/proc/{pid}/cwd")
            if where == inside or where.startswith(inside + os.sep):
                occupants.append(pid)
    return occupants
