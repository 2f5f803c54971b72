"""The programs that git runs for `bus.jsonl`: the clean filter and the merge driver."""

from __future__ import annotations

import os
from dataclasses import dataclass

import orjson

from ..export.jsonl.jsonl_file import lines_of
from ..export.jsonl.parts import is_marker, part_files
from ..schema.errors import InvalidInput
from ..schema.message.canonical_json import decode_stored
from .repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    #: A line without its newline, behind the fields that it sorts by: (ts, id, line).
    Line = tuple[str, str, bytes]

#: How many levels `bus log` writes around a record: its commit, and the list of its messages.
_ROOM = 2

#: The first bytes of every line of a bus.
_SEQ = b'{"seq":'


def messages_in(lines: Iterable[bytes], name: str) -> dict[str, Line]:
    """Return the lines of messages by id, each in git's form.

    A torn last line is left out: its writer is about to complete it. Of an id that comes twice
    the earlier time stays.

    Args:
        lines: the lines of a file, with their newlines.
        name: how to call the file in an error.

    Raises:
        InvalidInput: a line is not a message, or a message has two contents.
    """
    messages: dict[str, Line] = {}
    for number, line in enumerate(lines, 1):
        record = _record(line)
        if record is not None:
            add(messages, _common(line, record))
        elif is_marker(line):
            raise InvalidInput(
                f"line {number} of {name} is a conflict marker of git: keep one of the lines"
            )
        elif line.endswith(b"\n") and not line.isspace():
            beginning = line.strip()[:40].decode(errors="replace")
            raise InvalidInput(f"line {number} of {name} is not a message: {beginning!a}")
    return messages


def known_lines(data: bytes) -> Iterator[Line]:
    """Yield the messages in git's content, unchanged; other lines are left out."""
    for line in data.splitlines():
        record = _record(line)
        if record is not None:
            yield _common(line, record)


def add(messages: dict[str, Line], line: Line) -> None:
    """Add a line; of two with the same id, the one that sorts first stays.

    Raises:
        InvalidInput: it is there with another content.
    """
    there = messages.get(line[1])
    if there is not None and not are_same(there, line):
        raise InvalidInput(f"message {line[1]!a} has two contents; keep one of its lines")
    if there is None or line < there:
        messages[line[1]] = line


def are_same(line: Line, other: Line) -> bool:
    """Whether two lines are the same message, perhaps with another time or spelling."""
    return line == other or _content(line) == _content(other)


def _content(line: Line) -> object:
    record: dict[str, object] = orjson.loads(line[2])
    return {name: value for name, value in record.items() if name not in ("seq", "ts")}


def in_order(messages: dict[str, Line]) -> Iterator[bytes]:
    """Yield the lines as they stand in git, with their newlines."""
    for _, _, line in sorted(messages.values()):
        yield line + b"\n"


def records(lines: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield each line with its fields, None for one that is not a message."""
    for line in lines:
        yield line, _record(line)


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the fields of a message, or None for a line that is not a message.

    The line itself is kept, so a number that is rounded here is not in git.
    """
    try:
        record = decode_stored(line, room=_ROOM)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    has_key = isinstance(record.get("id"), str) and isinstance(record.get("ts"), str)
    return record if has_key else None


def _common(line: bytes, record: dict[str, Any]) -> Line:
    """Return the line without `seq`, which is of one bus only; the rest is unchanged."""
    line = line.strip()
    if line.startswith(_SEQ):
        line = b"{" + line[line.index(b",") + 1 :]
    return record["ts"], record["id"], line


# The clean filter: the lines that `git add` puts into git for a `bus.jsonl`.
#
# It gives the union of the lines in git and in the folder, so that no bus removes a message that
# another has added. Of a message that git has, git's line stays: otherwise buses that know it
# with another time, or in another spelling, would replace each other's line for ever. If a merge
# left two contents of a message, the one that a person kept in the folder wins.

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
    messages = messages_in(lines, path)
    for part in part_files(os.path.abspath(path)):
        # It may have been cut off since the last `git add`.
        for line in messages_in(lines_of(part), part).values():
            add(messages, line)
    for id, in_git in _by_id(_staged(path)).items():
        messages[id] = _chosen(in_git, messages.get(id))
    return in_order(messages)


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


# The merge driver: the union of two files by id.


@dataclass(frozen=True, slots=True)
class MergedLines:
    """The result of a merge.

    Attributes:
        lines: the merged file.
        conflicts: the ids that have another content on each side; both lines are in the file,
            between git's markers.
    """

    lines: list[bytes]
    conflicts: list[str]


def merge(ours: Iterable[bytes], theirs: Iterable[bytes]) -> MergedLines:
    """Merge two files, by the union of their messages. Their order and base make no difference.

    Messages never change, so a message that a side lacks has not reached it yet.

    Raises:
        InvalidInput: a line is not a message, or one side has two contents of a message.
    """
    our_messages, their_messages = messages_in(ours, "our side"), messages_in(theirs, "their side")
    both = our_messages.keys() & their_messages.keys()
    conflicts = {id for id in both if not are_same(our_messages[id], their_messages[id])}
    merged = (
        our_messages
        | their_messages
        | {id: min(our_messages[id], their_messages[id]) for id in both}
    )
    lines: list[bytes] = []
    for _, id, line in sorted(merged.values()):
        if id in conflicts:
            both_lines = (
                b"<<<<<<< ours",
                our_messages[id][2],
                b"=======",
                their_messages[id][2],
                b">>>>>>> theirs",
            )
            lines += [part + b"\n" for part in both_lines]
        else:
            lines.append(line + b"\n")
    return MergedLines(lines, sorted(conflicts))
