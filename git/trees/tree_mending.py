"""Mend the work trees of tasks: what a kill left half made, and folders that were deleted by hand.

Git's own folder of a tree has its head, its index and the history of its head. So a tree whose
files were deleted comes back as it was staged.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

from ...schema.errors import Refused
from ..repository import GitFailed
from ..text_file import is_missing, read_small, replace_text
from .tree_list import admin_folders, admin_of, read_lock
from .tree_names import is_check, is_marked, mark_of
from .tree_state import repository_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..branches.repositories import Place
    from .tree_list import Tree

#: How long git waits for the lock of a ref, in seconds; a git that lives has one for a moment.
REF_WAIT_S = 10

#: The settings by which git waits so long for a ref that another git changes.
PATIENT = (
    *("-c", f"core.filesRefLockTimeout={REF_WAIT_S * 1000}"),
    *("-c", f"core.packedRefsTimeout={REF_WAIT_S * 1000}"),
)

#: A head without a commit, as git writes it for a tree that is being made.
_NO_HEAD = "ref: refs/heads/.invalid"


def mend(tree: Tree, base: str, limit_s: float) -> None:
    """Give a tree all that git needs there; the caller holds its locks.

    Args:
        tree: of ours.
        base: the commit that it begins at, for one whose making was cut off.
        limit_s: how long bringing back its files may take.

    Raises:
        Refused: there is something else at its path.
    """
    drop_dead_locks(tree)
    _write_missing(os.path.join(tree.admin, "commondir"), "../..")
    _write_missing(os.path.join(tree.admin, "HEAD"), base)
    if tree.is_there:
        return
    dot_git = os.path.join(tree.path, ".git")
    is_folder = os.path.isdir(tree.path) and not os.path.islink(tree.path)
    if os.path.lexists(dot_git) or (os.path.lexists(tree.path) and not is_folder):
        raise Refused(f"{tree.path} is not the work tree that git knows there any more; move it")
    is_empty = is_empty_folder(tree.path) or not os.path.lexists(tree.path)
    os.makedirs(tree.path, exist_ok=True)
    _write_missing(dot_git, f"gitdir: {tree.admin}")
    if tree.is_made and is_empty:
        repository_of(tree).run("checkout-index", "--all", "--quiet", limit_s=limit_s)


def complete_begun(place: Place) -> None:
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


def drop_stubs(place: Place, task: str) -> None:
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


def drop_stump(place: Place, path: str) -> None:
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


def drop_dead_locks(tree: Tree) -> None:
    """Remove locks of git in an unfinished tree; the caller holds the lock of its task.

    No git but ours has been there, and each of ours has the task's lock as long as it runs. A lock
    in a finished tree is somebody's, and stays.
    """
    if not tree.is_made:
        for name in ("index.lock", "HEAD.lock"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(tree.admin, name))


def drop_dead_branch_lock(place: Place, ref: str, base: str) -> bool:
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
    """Whether there is a folder without anything in it, and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)


def _write_missing(path: str, line: str) -> None:
    """Write a file of git's that it would have written next, or had begun to."""
    if is_missing(path):
        replace_text(path, line + "\n", 0o644)
