"""The work trees of a repository, and what is noted about those that belong to tasks."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass

from ..repository import GitFailed
from ..text_file import read_small, replace_text
from .tree_names import is_marked, mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..branches.repositories import Place

#: The note, in git's folder of a work tree, which goes with it.
_NOTE = "ackbus.json"


@dataclass(frozen=True, slots=True)
class Note:
    """Our note about a tree of ours.

    Attributes:
        task: whose it is.
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
class Tree:
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
    note: Note | None

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

        Without a note the making had just begun, or the note was lost; files are only in the
        second, and an index.
        """
        if self.note is not None:
            return self.note.is_made
        return os.path.exists(os.path.join(self.admin, "index"))

    @property
    def is_there(self) -> bool:
        """Whether its folder is there, and leads to git's folder of it."""
        return points_at(self.path, self.admin)


def read_trees(place: Place) -> list[Tree]:
    """Return the linked work trees of a repository, those included whose making was cut off."""
    admins = _admins(place.common_dir)
    raw = place.git.run("worktree", "list", "--porcelain", "-z")
    trees = []
    for record in raw.split(b"\0\0"):
        fields = _fields(record)
        admin = admins.get(fields.get("worktree", ""))
        if admin is not None:
            trees.append(_tree(fields, admin))
    return trees


def checked_out_at(place: Place, branch: str, trees: list[Tree]) -> str | None:
    """Return the work tree that a branch is checked out in, or None; the main one counts."""
    if not place.is_bare and place.default_branch() == branch:
        return place.main
    return next((tree.path for tree in trees if tree.branch == branch), None)


def _tree(fields: dict[str, str], admin: str) -> Tree:
    head = fields.get("HEAD", "")
    return Tree(
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
    found = {}
    for admin in admin_folders(common_dir):
        with suppress(FileNotFoundError):
            found[_read_path(os.path.join(admin, "gitdir"), admin)] = admin
    return {path.removesuffix("/.git"): admin for path, admin in found.items()}


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


def read_note(admin: str) -> Note | None:
    """Return what is noted about a tree; None where nothing is, or nothing that we wrote."""
    try:
        note = Note(**json.loads(read_small(os.path.join(admin, _NOTE))))
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        return None
    texts = (note.task, note.branch, note.base)
    is_of_ours = all(isinstance(text, str) for text in texts) and isinstance(note.is_made, bool)
    return note if is_of_ours else None


def write_note(admin: str, note: Note) -> None:
    """Note something about a tree."""
    fields = {name: getattr(note, name) for name in Note.__slots__}
    replace_text(os.path.join(admin, _NOTE), json.dumps(fields) + "\n", 0o644)
