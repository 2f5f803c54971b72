"""A `bus.jsonl` that another program has replaced, such as git in a merge or a checkout.

The file is derived, so it may be rewritten; but not before the log has all its messages.
"""

from __future__ import annotations

import orjson

from ...schema.errors import Refused
from .jsonl_file import lines_of, stamp_of
from .parts import part_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from ...bus.bus import Bus

# The markers that git puts around a conflict that people are to resolve.

#: The beginnings of markers. No line of JSON begins so.
_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")

#: The advice about markers.
CURE = (
    "after 'bus setup git', 'git checkout --merge -- FILE' leaves only those around two contents"
    " of one id: keep one of the two lines, without the markers, and 'git add' the file"
)


class ConflictMarkers(Refused):
    """The lines are in conflict: git could not merge them, and nothing has since.

    Attributes:
        number: the line of the first marker.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"line {number} is a conflict marker of git; {CURE}")


def is_marker(line: bytes) -> bool:
    """Whether git put the line there, to mark a conflict."""
    return line.startswith(_MARKERS)


def refuse_markers(lines: Iterable[bytes]) -> None:
    """Raise if a line is a marker.

    Raises:
        ConflictMarkers: a line is a marker.
    """
    for number, line in enumerate(lines, 1):
        if is_marker(line):
            raise ConflictMarkers(number)


class NotImported(Refused):
    """The files hold lines that the log lacks: messages to import, or lines of another form."""


def exported_files(jsonl: str) -> list[str]:
    """Return the rotated parts beside a `bus.jsonl`, oldest first, then the file itself."""
    parts = part_files(jsonl)
    return parts if stamp_of(jsonl) is None else [*parts, jsonl]


def last_in_log(bus: Bus, lines: Iterable[bytes]) -> tuple[int, int] | None:
    """Compare the lines of all files with the log: they must be its beginning, to the byte.

    Returns:
        The seq of the last whole line, and how many bytes of a torn line come after it. None when
        a line is foreign, doubled, missing or out of its place.
    """
    messages = bus.log.read()
    last_seq = torn = 0
    for line in lines:
        message = next(messages, None)
        if torn or message is None:
            return None
        own = message.to_line() + b"\n"
        if line == own:
            last_seq = message.seq
        elif own.startswith(line):
            torn = len(line)
        else:
            return None
    return last_seq, torn


def refuse_unknown(bus: Bus) -> None:
    """Check that rewriting the files loses nothing.

    Raises:
        NotImported: a line is a message that the log lacks, or no message at all.
    """
    for path in exported_files(bus.layout.jsonl):
        for number, id in _ids(path):
            if bus.log.get(id) is None:
                raise NotImported(
                    f"{path} has message {id} on line {number}, which is not in this bus;"
                    " 'bus import' brings its lines in, or says what is wrong with them"
                )


def refuse_unjudged(targets: Iterable[str], judged: Container[str] = ()) -> None:
    """Check that no foreign file is overwritten that was not compared with the log.

    Args:
        targets: the paths of the new files.
        judged: the files whose messages are known to be in the log.

    Raises:
        Refused: there is a foreign file, which people must move away.
    """
    for path in targets:
        if path not in judged and stamp_of(path) is not None:
            raise Refused(f"{path} is not a part, but is in the place of a part; move it away")


def _ids(path: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the id of each line; a torn last line is left out."""
    for number, line in enumerate(lines_of(path), 1):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            record = None
        id = record.get("id") if isinstance(record, dict) else None
        if not isinstance(id, str):
            if is_marker(line):
                raise NotImported(f"line {number} of {path} is a conflict marker of git; {CURE}")
            if not line.endswith(b"\n"):
                return
            raise NotImported(
                f"line {number} of {path} was not written by a bus; 'bus import' says what it"
                " takes; mend the line, or move the file away"
            )
        yield number, id
