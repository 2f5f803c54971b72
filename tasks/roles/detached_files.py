"""The files of a commit in a folder of their own, without git: for work that nobody commits."""

from __future__ import annotations

import os

from ...git.branches.repositories import repository_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.branches.repositories import Place

#: How long git may take to write them, in seconds.
_LIMIT_S = 600.0


def files_of(place: Place, ref: str, folder: str) -> str:
    """Write the files of a commit into a new folder, and return that.

    Args:
        place: the repository.
        ref: a name of the commit.
        folder: the folder; the one above it must be there.

    Raises:
        Refused: there is no such commit.
        GitFailed: git failed.
    """
    commit = place.commit(ref)
    os.mkdir(folder)
    variables: dict[str, str | None] = {
        "GIT_DIR": place.common_dir,
        "GIT_WORK_TREE": folder,
        "GIT_INDEX_FILE": f"{folder}.index",
    }
    git = repository_at(folder, variables)
    git.run("read-tree", commit, limit_s=_LIMIT_S)
    git.run("checkout-index", "--all", "--quiet", limit_s=_LIMIT_S)
    os.unlink(f"{folder}.index")
    return folder
