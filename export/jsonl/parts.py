"""The parts that were cut off `bus.jsonl`, and `bus.index.json`, which lists them.

The index is derived from the parts, and it is the sign that they are complete: a rewrite of all
files removes it first and writes it last.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from itertools import count

from ...bus.log.archive_reader import MAX_LINE_BYTES
from ...schema.directory.folder import Folder
from ...schema.errors import BusUnusable, Refused
from ...schema.message import lazy_orjson as orjson
from .jsonl_file import JsonlFile, lines_of, open_exported, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

    from ...bus.local_bus import LocalBus

#: How much of a part is read at a time for its checksum, in bytes.
_CHUNK_BYTES = 1024 * 1024

#: The largest index that is read, in bytes: an index of some 300,000 parts.
_MAX_INDEX_BYTES = 64 * 1024**2

#: The pattern of the names of parts, for git and `glob`.
PART_GLOB = f"bus-{'[0-9]' * 6}.jsonl"

#: The ending of the names of files that are being rewritten.
STAGED = ".new"

#: The name of the index.
INDEX = "bus.index.json"


class RotatedPart:
    """One rotated file.

    Attributes:
        name: its name in the bus directory.
        first_seq, last_seq: the seqs of its first and its last message.
        messages: how many it holds.
        bytes: its size.
        sha256: the checksum of its bytes, in hexadecimal digits.
    """

    # No dataclass: short commands load this module, and would wait a millisecond for its methods.
    __slots__ = ("bytes", "first_seq", "last_seq", "messages", "name", "sha256")

    def __init__(
        self, name: str, first_seq: int, last_seq: int, messages: int, bytes: int, sha256: str
    ) -> None:
        self.name, self.first_seq, self.last_seq = name, first_seq, last_seq
        self.messages, self.bytes, self.sha256 = messages, bytes, sha256

    def record(self) -> dict[str, Any]:
        """Return it as it is in the index."""
        order = ("name", "first_seq", "last_seq", "messages", "bytes", "sha256")
        return {name: getattr(self, name) for name in order}


def part_names(directory: str) -> list[str]:
    """Return the names of the rotated parts in a directory, oldest first."""
    return parts_among(Folder(directory).names(), _recorded(directory))


def part_files(jsonl: str) -> list[str]:
    """Return the paths of the rotated parts beside a `bus.jsonl`, oldest first."""
    directory = os.path.dirname(jsonl)
    return [os.path.join(directory, name) for name in part_names(directory)]


def parts_among(names: Iterable[str], recorded: int = 0) -> list[str]:
    """Return the names of parts among some names, oldest first.

    People give their copies such names too (`bus-202611.jsonl`), so numbers count from 1 on, and
    a name after a gap is not the name of a part.

    Args:
        names: of files of one directory.
        recorded: how many parts there were when it was last known: up to there gaps may be.
    """
    there = set(names)
    parts: list[str] = []
    for number in count(1):
        name = part_name(number)
        if name in there:
            parts.append(name)
        elif number > recorded:
            break
    return parts


def part_name(number: int) -> str:
    """Return the name of a part; the first is number 1."""
    return f"bus-{number:06}.jsonl"


def split(lines: Iterable[bytes], size: int, limit: int) -> list[list[bytes]]:
    """Split lines where their file would outgrow a limit.

    Every list but the first begins a new file; the first is empty when the file is full already.

    Args:
        lines: without their newlines.
        size: how large the file is, in bytes.
        limit: how large it may be; 0 for no limit. A file has at least 1 line.
    """
    pieces: list[list[bytes]] = [[]]
    for line in lines:
        if limit and size and size + len(line) + 1 > limit:
            pieces.append([])
            size = 0
        pieces[-1].append(line)
        size += len(line) + 1
    return pieces


class RotatedParts:
    """The parts of a bus. Only the holder of the export lock may change them.

    Args:
        directory: the bus directory.
        limit: the size over which `bus.jsonl` is cut, in bytes; 0 when it never is.
    """

    def __init__(self, directory: str, limit: int) -> None:
        self._directory = directory
        self._folder = Folder(directory)
        self._limit = limit
        self._parts: list[RotatedPart] = []

    @property
    def last_seq(self) -> int:
        """The seq of the last message in a part; 0 when there is no part."""
        return self._parts[-1].last_seq if self._parts else 0

    @property
    def next_path(self) -> str:
        """The path of the next part that `cut` makes; it must not exist."""
        return self.path(len(self._parts) + 1)

    def path(self, number: int) -> str:
        """Return the path of the part of a number."""
        return os.path.join(self._directory, part_name(number))

    def lacking(self) -> list[str]:
        """Return the names of files that are missing or of a wrong size; change nothing.

        There may be a part more than in the index: it was cut this moment, or before a crash.
        """
        if not self._limit:
            return []
        recorded = self._read()
        if recorded is None:
            return [INDEX]
        return [part.name for part in recorded if not self._is_in_place(part)]

    def recorded(self) -> list[RotatedPart]:
        """Return the parts that the index has; none where it can't be read."""
        return self._read() or []

    def are_whole(self, *, after_crash: bool = False) -> bool:
        """Read the index, and return whether the files are as it describes them.

        Args:
            after_crash: another part may have been cut just before; it is added to the index now,
                and its lines must be compared with the log.
        """
        names = part_names(self._directory)
        if not self._limit:
            return not names and self._folder.look(INDEX) is None
        recorded = self._read()
        if recorded is None or not all(map(self._is_in_place, recorded)):
            return False
        expected = [part.name for part in recorded]
        if names == expected:
            self._parts = recorded
            return True
        if not after_crash or names != [*expected, part_name(len(expected) + 1)]:
            return False
        size = self._size(names[-1])
        if size is None or size > max(self._limit, MAX_LINE_BYTES):
            return False  # it is read to its end: no part is so large, but what a clone brought
        try:
            cut = _describe(self._folder.path_of(names[-1]))
        except Refused:
            return False
        self._parts = recorded
        self._store([*recorded, cut])
        return True

    def cut(self, jsonl: str) -> None:
        """Make `bus.jsonl` the next part; its bytes must be on the disk."""
        path = self.next_path
        self._folder.rename(os.path.basename(jsonl), os.path.basename(path))
        self._store([*self._parts, _describe(path)])

    def remove_staged(self) -> None:
        """Remove the temporary files of a killed exporter."""
        import re  # an ordinary export of a command comes past none of these

        for name in self._folder.names():
            if re.fullmatch(r"bus((-\d{6,})?\.jsonl|\.index\.json)\.new", name):
                self._folder.remove(name)

    def replace(self, staged: list[str], jsonl: str, fresh: str) -> None:
        """Replace all files by rewritten files.

        A crash on the way leaves no index beside parts, or an index where there is no limit:
        either way the next exporter rewrites them all.

        Args:
            staged: the files that become the parts, in order.
            jsonl: `bus.jsonl`.
            fresh: the file that becomes it.
        """
        before = part_names(self._directory)  # without the index none is known behind a gap
        if self._limit:
            self._folder.remove(INDEX)
        else:
            self._rename(fresh, jsonl)  # before the parts go: it has all that they have
        for number, path in enumerate(staged, 1):
            self._rename(path, self.path(number))
        current = {part_name(number) for number in range(1, len(staged) + 1)}
        for name in reversed(before):  # a crash must leave no gap
            if name not in current:
                self._folder.remove(name)
        if not self._limit:
            self._folder.remove(INDEX)
            return
        self._rename(fresh, jsonl)
        self._store([_describe(self.path(number)) for number in range(1, len(staged) + 1)])

    def _is_in_place(self, part: RotatedPart) -> bool:
        return self._size(part.name) == part.bytes

    def _size(self, name: str) -> int | None:
        status = self._folder.look(name)
        return None if status is None else status.st_size

    def _rename(self, path: str, to: str) -> None:
        self._folder.rename(os.path.basename(path), os.path.basename(to))

    def _read(self) -> list[RotatedPart] | None:
        """Return the parts of the index; None when it is missing, or of another limit."""
        try:
            index = _read_index(self._directory)
            if index["rotate_bytes"] != self._limit:
                return None
            return [_part_of(fields) for fields in index["parts"]]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _store(self, parts: list[RotatedPart]) -> None:
        index = {"rotate_bytes": self._limit, "parts": [part.record() for part in parts]}
        with self._folder.new(INDEX + STAGED) as file:
            file.write(orjson.dumps(index, option=orjson.OPT_INDENT_2) + b"\n")
        self._folder.rename(INDEX + STAGED, INDEX)
        self._parts = parts


def _part_of(fields: dict[str, Any]) -> RotatedPart:
    """Return a part of the index, which may have come with a clone.

    Raises:
        ValueError, TypeError: it is none.
    """
    import re

    part = RotatedPart(**fields)
    if not re.fullmatch(r"bus-[0-9]{6,}\.jsonl", part.name) or not isinstance(part.bytes, int):
        raise ValueError("a part has another name, or no size")
    return part


def whole_parts(directory: str) -> frozenset[str]:
    """Return the paths of the parts whose bytes give the checksum in the index."""
    import hashlib

    whole = set()
    for part in RotatedParts(directory, _limit(directory)).recorded():
        path = os.path.join(directory, part.name)
        with suppress(OSError, BusUnusable), open_exported(path) as file:
            if os.fstat(file.fileno()).st_size != part.bytes:
                continue
            if hashlib.file_digest(file, "sha256").hexdigest() == part.sha256:
                whole.add(path)
    return frozenset(whole)


def index_file(directory: str) -> list[str]:
    """Return the path of the index, if there is an index."""
    folder = Folder(directory)
    return [folder.path_of(INDEX)] if folder.has(INDEX) else []


def _limit(directory: str) -> int:
    try:
        return int(_read_index(directory)["rotate_bytes"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0


def _recorded(directory: str) -> int:
    """Return how many parts the index has; 0 where it can't be read."""
    try:
        return len(_read_index(directory)["parts"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0


def _read_index(directory: str) -> Any:
    with open_exported(os.path.join(directory, INDEX)) as file:
        if os.fstat(file.fileno()).st_size > _MAX_INDEX_BYTES:
            raise ValueError("an index is not so large")
        return orjson.loads(file.read())


def _describe(path: str) -> RotatedPart:
    """Read a part from end to end.

    Raises:
        Refused: its first or its last line is no whole line of a bus.
    """
    import hashlib

    digest = hashlib.sha256()
    messages = 0
    with closing(JsonlFile(path)) as file, open_exported(path) as stream:
        ends = file.first_seq(), file.last_seq()  # else it is not read to its end
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            messages += chunk.count(b"\n")
        return RotatedPart(os.path.basename(path), *ends, messages, file.size, digest.hexdigest())


# A `bus.jsonl` that another program has replaced, such as git in a merge or a checkout.
#
# The file is derived, so it may be rewritten; but not before the log has all its messages.

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


def last_in_log(
    bus: LocalBus, lines: Iterable[bytes], *, after_seq: int = 0
) -> tuple[int, int] | None:
    """Compare the lines of all files with the log: they must be its beginning, to the byte.

    Args:
        bus: an open bus.
        lines: of all files, or those after a message.
        after_seq: that message.

    Returns:
        The seq of the last whole line, and how many bytes of a torn line come after it. None when
        a line is foreign, doubled, missing or out of its place.
    """
    messages = bus.log.read(after_seq=after_seq)
    last_seq, torn = after_seq, 0
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


def refuse_unknown(bus: LocalBus) -> None:
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


def refuse_unread(targets: Iterable[str], safe: Container[str] = ()) -> None:
    """Check that no foreign file is overwritten whose messages may not be in the log.

    Args:
        targets: the paths of the new files.
        safe: the files whose messages are known to be in the log.

    Raises:
        Refused: there is a foreign file, which people must move away.
    """
    for path in targets:
        if path not in safe and stamp_of(path) is not None:
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
