"""Changes between two commits, compared: what a candidate changes must be what was approved."""

from __future__ import annotations

import os
from collections import Counter

from ..repository import CommandFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..repository import Repository
    from .repositories import Place

#: No setting and no attribute of a user changes the form; without context, so that changes of
#: others close by make no difference.
_DIFF = (
    *("diff-tree", "-r", "-p", "--unified=0", "--full-index", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--src-prefix=a/"),
    "--dst-prefix=b/",
)

#: The refs that keep what has landed.
_KEPT = ("refs/heads", "refs/tags", "refs/remotes", "refs/ackbus/remote")

#: The beginnings of lines in the header of a file that say what changes in it.
_TOLD = (b"old mode", b"new mode", b"new file mode", b"deleted file mode", b"rename ", b"Binary ")


def patch_id(repository: Repository, before: str, after: str) -> str:
    """Return git's id of what changed between two commits; "" where nothing did."""
    diff = repository.run(*_DIFF, "--no-renames", before, after)
    return _id_of(repository, diff)


def _id_of(repository: Repository, diff: bytes) -> str:
    answer = repository.run("patch-id", "--stable", stdin=diff) if diff else b""
    return answer.split()[0].decode() if answer else ""


def is_part(
    repository: Repository,
    made: tuple[str, str],
    approved: tuple[str, str],
    besides: Collection[str] = (),
) -> bool:
    """Return whether a change has no line that another one has not, wherever in the files.

    It may have fewer: what the target has already. Git moves changes with a renamed file.

    Args:
        repository: where the commits are.
        made, approved: each a commit before the change, and one after it.
        besides: files that may have any change.
    """
    left_out = [f":(top,literal,exclude){file}" for file in besides]
    diff = (*_DIFF, "--find-renames", "-l0")
    one, other = (
        _lines(repository.run(*diff, *pair, "--", *left_out)) for pair in (made, approved)
    )
    return one <= other


def _lines(diff: bytes) -> Counter[bytes]:
    """Return the lines that a diff adds and takes away, modes and binary files included."""
    lines: Counter[bytes] = Counter()
    is_header = False
    for line in diff.split(b"\n"):
        if line.startswith((b"diff --git ", b"@@ ")):
            is_header = line.startswith(b"diff")
        elif line and (line.startswith(_TOLD) or not is_header):
            lines[line] += 1
    return lines


def merge_bases(repository: Repository, a: str, b: str) -> list[str]:
    """Return the merge bases of two commits; none where their histories are unrelated."""
    try:
        return repository.run("merge-base", "--all", a, b).decode().split()
    except CommandFailed as error:
        if error.code == 1:
            return []
        raise


def contains(repository: Repository, commit: str, other: str) -> bool:
    """Return whether a commit is another one, or comes after it."""
    try:
        repository.run("merge-base", "--is-ancestor", other, commit)
    except CommandFailed as error:
        if error.code == 1:
            return False
        raise
    return True


def has_elsewhere(place: Place, commit: str, branch: str) -> bool:
    """Return whether another ref than a branch has a commit: of here, or as a remote had it."""
    if place.git.commit(commit) is None:
        return False
    command = ("for-each-ref", "--count=2", "--format=%(refname)", f"--contains={commit}", *_KEPT)
    refs = os.fsdecode(place.git.run(*command)).split()
    return any(ref != place.branch_ref(branch) for ref in refs)


def last_changes(
    repository: Repository, base: str, target: str, files: list[str]
) -> dict[str, str]:
    """Return for each file the commit that last changed it on the way from a base to a target."""
    found = {}
    for file in files:
        options = ("--first-parent", "-1", f"{base}..{target}", "--", f":(literal,top){file}")
        if answer := repository.run("rev-list", *options).decode().strip():
            found[file] = answer
    return found


def way(repository: Repository, since: str, target: str) -> list[str]:
    """Return a commit, and those that lead from it to a target, the oldest first."""
    raw = repository.run("rev-list", "--reverse", "--ancestry-path", f"{since}..{target}")
    return [since, *raw.decode().split()]


def is_whole(git: Repository, commit: str, known: str) -> bool:
    """Whether git has all that a commit has beyond another one: none is missing, or empty."""
    try:
        ids = git.run("rev-list", "--objects", "--no-object-names", commit, "--not", known)
        told = git.run("cat-file", "--batch-check=%(objectsize)", stdin=ids)
    except CommandFailed:
        return False
    return all(size.isdigit() for size in told.splitlines())
