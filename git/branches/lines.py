"""Lines of files at a commit, and the places of these lines at a later one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..repository import CommandFailed, Repository

#: The place of a changed part: the first line and the count, before and after.
_PART = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a line.

    Attributes:
        file: the path from the root of the repository.
        line: the number, from 1.
    """

    file: str
    line: int


def text_of(repository: Repository, commit: str, place: Place) -> str | None:
    """Return the text of a line at a commit; None where there is no such file or line."""
    try:
        content = repository.run("cat-file", "blob", f"{commit}:{place.file}")
    except (CommandFailed, ValueError):  # a name with a NUL is none
        return None
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not 1 <= place.line <= len(lines):
        return None
    return lines[place.line - 1].decode("utf-8", "replace").rstrip("\r")


def place_now(repository: Repository, before: str, after: str, place: Place) -> Place | None:
    """Return the place at another commit of a line that is at one; None where it was changed.

    A renamed file is followed, as far as git takes it for one.

    Raises:
        CommandFailed: a commit is missing.
    """
    options = ("--raw", "-r", "-z", "-M", "--no-abbrev", "--ignore-submodules=none")
    words = iter(repository.run("diff-tree", *options, before, after).split(b"\0"))
    wanted = place.file.encode("utf-8", "surrogateescape")
    for change in words:
        if not change:
            break
        *_, old, new, kind = change.split()
        file = target = next(words)
        if kind[:1] in (b"R", b"C"):
            target = next(words)
        if file == wanted and kind[:1] != b"C":
            if kind[:1] == b"D":
                return None
            line = _line_now(repository, old.decode(), new.decode(), place.line)
            name = target.decode("utf-8", "surrogateescape")
            return None if line is None else Place(name, line)
    return place


def _line_now(repository: Repository, old: str, new: str, line: int) -> int | None:
    if old == new:
        return line
    options = ("--unified=0", "--inter-hunk-context=0", "--text")
    plain = ("--no-color", "--no-ext-diff", "--no-textconv")
    moved = 0
    for part in _PART.finditer(repository.run("diff", *options, *plain, old, new)):
        start, count, _, added = (1 if part[n] is None else int(part[n]) for n in (1, 2, 3, 4))
        first = start if count else start + 1  # what is only added stands behind this line
        if line < first:
            break
        if line < first + count:
            return None
        moved += added - count
    return line + moved
