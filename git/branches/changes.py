"""Changes of a branch, as text for people and as counts."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..repository import CommandFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..repository import Repository

#: No program of a user's settings has a part in it, and no colour.
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file.

    Attributes:
        file: its name, the new one where it was renamed.
        added, removed: how many lines; None for a file that is no text.
    """

    file: str
    added: int | None
    removed: int | None

    @property
    def readable(self) -> str:
        """The name, with a mark for each byte that is no text."""
        return os.fsencode(self.file).decode("utf-8", "replace")


def start_of(git: Repository, target: str, head: str) -> str | None:
    """Return the commit at which a branch last had all of its target, or None."""
    try:
        answer = git.run("merge-base", f"refs/heads/{target}", head)
    except CommandFailed:  # no such branch, or no common beginning
        return None
    return answer.decode().strip()


def text_of(git: Repository, start: str, head: str) -> str:
    """Return the difference between two commits, as a patch."""
    return os.fsdecode(git.run("diff", *_PLAIN, start, head, "--"))


def counts_of(git: Repository, start: str, head: str) -> list[FileChange]:
    """Return the files that differ between two commits, with the counts of their lines."""
    raw = git.run("diff", *_PLAIN, "--numstat", "-z", start, head, "--")
    fields = iter(raw.split(b"\0")[:-1])
    found = []
    for field in fields:
        added, removed, name = field.split(b"\t", 2)
        if not name:  # renamed: the old name and the new one follow
            next(fields)
            name = next(fields)
        found.append(FileChange(os.fsdecode(name), _count(added), _count(removed)))
    return found


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
