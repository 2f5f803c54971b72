"""The clean filter: the lines that `git add` puts into git for a `bus.jsonl`.

It gives the union of the lines in git and in the folder, so that no bus removes a message that
another has added. Of a message that git has, git's line stays: otherwise buses that know it with
another time, or in another spelling, would replace each other's line for ever. If a merge left two
contents of a message, the one that a person kept in the folder wins.
"""

from __future__ import annotations

import os

from ...export.jsonl.jsonl_file import lines_of
from ...export.jsonl.parts import part_files
from ...schema.errors import InvalidInput
from ..repository import Repository
from .git_lines import add, are_same, in_order, known_lines, messages_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .git_lines import Line

#: Variables that change what a path means to git, taken away.
_PLAIN_PATHSPECS = {
    f"GIT_{kind}_PATHSPECS": None for kind in ("LITERAL", "GLOB", "NOGLOB", "ICASE")
}


def clean(path: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that git is to hold.

    Args:
        path: of the file, relative to the root of the repository, which is the working directory.
        lines: the present lines of the file.

    Raises:
        InvalidInput: a line is not a message (a conflict marker, say), or one has two contents.
        GitFailed: git's content can't be read.
    """
    found = messages_in(lines, path)
    for part in part_files(os.path.abspath(path)):
        # It may have been cut off since the last `git add`.
        for line in messages_in(lines_of(part), part).values():
            add(found, line)
    for id, in_git in _by_id(_staged(path)).items():
        found[id] = _chosen(in_git, found.get(id))
    return in_order(found)


def _by_id(contents: Iterable[bytes]) -> dict[str, list[Line]]:
    """Return git's lines of each message: several, where a merge is in conflict."""
    in_git: dict[str, list[Line]] = {}
    for content in contents:
        for line in known_lines(content):
            in_git.setdefault(line[1], []).append(line)
    return in_git


def _chosen(in_git: list[Line], in_folder: Line | None) -> Line:
    """Return the line to keep: git's, and of two contents in git the one in the folder."""
    first, *others = in_git
    if all(are_same(first, other) for other in others):
        return min(in_git)
    if in_folder is None:
        raise InvalidInput(f"message {first[1]!a} has two contents in git; keep one of its lines")
    return min((line for line in in_git if are_same(line, in_folder)), default=in_folder)


def _staged(path: str) -> Iterator[bytes]:
    """Yield a file's contents in the index: one, or those of both sides of a conflict."""
    # `git --literal-pathspecs add` hands that on, and no line would be found.
    repository = Repository(os.getcwd(), _PLAIN_PATHSPECS)
    listed = repository.run("ls-files", "--stage", "-z", "--", f":(top,literal){path}")
    for entry in listed.split(b"\0")[:-1]:
        _mode, name, stage = entry.partition(b"\t")[0].split()
        if stage != b"1":  # what both sides began from
            yield repository.run("cat-file", "blob", name.decode())
