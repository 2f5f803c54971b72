"""Lines of messages as git holds them: without `seq`, each id once, in order of (ts, id)."""

from __future__ import annotations

import orjson

from ...export.jsonl.conflict_markers import is_marker
from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode_stored

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
    found: dict[str, Line] = {}
    for number, line in enumerate(lines, 1):
        record = _record(line)
        if record is not None:
            add(found, _common(line, record))
        elif is_marker(line):
            raise InvalidInput(
                f"line {number} of {name} is a conflict marker of git: keep one of the lines"
            )
        elif line.endswith(b"\n") and not line.isspace():
            beginning = line.strip()[:40].decode(errors="replace")
            raise InvalidInput(f"line {number} of {name} is not a message: {beginning!a}")
    return found


def known_lines(data: bytes) -> Iterator[Line]:
    """Yield the messages in git's content, unchanged; other lines are left out."""
    for line in data.splitlines():
        record = _record(line)
        if record is not None:
            yield _common(line, record)


def add(found: dict[str, Line], line: Line) -> None:
    """Add a line; of two with the same id, the one that sorts first stays.

    Raises:
        InvalidInput: it is there with another content.
    """
    there = found.get(line[1])
    if there is not None and not are_same(there, line):
        raise InvalidInput(f"message {line[1]!a} has two contents; keep one of its lines")
    if there is None or line < there:
        found[line[1]] = line


def are_same(left: Line, right: Line) -> bool:
    """Whether two lines are one message, known with two times perhaps, or in two spellings."""
    return left == right or _content(left) == _content(right)


def _content(line: Line) -> object:
    record: dict[str, object] = orjson.loads(line[2])
    return {name: value for name, value in record.items() if name not in ("seq", "ts")}


def in_order(found: dict[str, Line]) -> Iterator[bytes]:
    """Yield the lines as they stand in git, with their newlines."""
    for _, _, line in sorted(found.values()):
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
