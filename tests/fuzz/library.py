"""The parsers of the library, in this process: a case is undone, so that none meets another."""

import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ackbus import Bus, Inbox
from ackbus.bus.reservations.path_patterns import PathIndex, escape_path, parse_pattern
from ackbus.errors import AckbusError, InvalidInput
from ackbus.export.jsonl.importer import FieldMap
from ackbus.export.jsonl.parts import ConflictMarkers
from ackbus.git.drivers import merge, records
from ackbus.schema.message.canonical_json import decode, encode
from ackbus.schema.message.message import message_of_line
from ackbus.schema.message.names import MAX_PATH_CHARS
from ackbus.schema.message.patterns import TypePattern, check_pattern
from ackbus.schema.message.times import format_ts, parse_duration_ms, parse_since, parse_ts
from ackbus.workers.json_contract import parse_response

#: The longest error, in characters: it is to be read as one line.
MAX_ERROR_CHARS = 1500

#: The words of the messages that are searched.
TEXTS = [
    "disk full",
    "Zoë's naïve café",
    "a_b-c",
    "x" * 3000,
    "\0\u202e",
    "١٢٣ 漢字 😀",
    "",
    "DİSK",
]


class _Undo(Exception):
    """Ends a transaction without keeping it."""


@contextmanager
def nothing(_folder: Path) -> Iterator[None]:
    """The place of what needs none."""
    yield


@contextmanager
def a_bus(folder: Path) -> Iterator[Bus]:
    """A bus with a few messages."""
    with Bus.init(folder / ".worker-state") as bus:
        bus.publish("note", {"n": 1}, from_agent="alice", id="m-2")
        for at, text in enumerate(TEXTS):
            bus.publish("task.assign", {"text": text, "n": at}, from_agent="bob", to_agent="alice")
        yield bus


@contextmanager
def undone(bus: Bus) -> Iterator[None]:
    """Undoes all that the block has done to the bus."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown recipients
            with bus.transaction():
                yield
                raise _Undo
    except _Undo:
        pass


def refused(error: AckbusError) -> None:
    """Checks that an error is a line which can be printed and read."""
    text = str(error)
    text.encode()
    assert text, repr(error)
    assert "\n" not in text, text
    assert len(text) <= MAX_ERROR_CHARS, f"{len(text)} characters: {text[:200]}"


def json_text(data: bytes, _place: None) -> None:
    """JSON that is read is written as the same again, or refused."""
    try:
        text = encode(decode(data))
    except InvalidInput as error:
        refused(error)
    else:
        assert encode(decode(text)) == text
        json.loads(text)


def message(fields: dict[str, Any], bus: Bus) -> None:
    """A message is refused and nothing stored, or comes back from its line as the same bytes."""
    newest = bus.log.newest_seq()
    line = None
    with undone(bus):
        try:
            receipt = bus.publish(**{"type": "note", "from_agent": "alice"} | fields)
        except AckbusError as error:
            refused(error)
            assert bus.log.newest_seq() == newest
        else:
            stored = bus.get(receipt.seq)
            assert stored is not None
            assert stored.id == receipt.id == (fields.get("id") or receipt.id)
            assert stored.payload_error is None or "payload_ref" in fields
            line = stored.to_line()
            json.loads(stored.to_json())
    assert bus.log.newest_seq() == newest
    if line is not None and not receipt.duplicate:
        check_line(line, bus)


def check_line(line: bytes, bus: Bus) -> None:
    """An exported line, imported where the message is not, gives that message again."""
    assert b"\n" not in line
    assert message_of_line(line, bus.blobs).id == json.loads(line)["id"]
    with undone(bus):
        report = bus.import_jsonl(io.BytesIO(line + b"\n"))
        assert (report.stored, report.reasons) == (1, []), report
        again = bus.get(bus.log.newest_seq())
        assert again is not None
        assert again.to_line() == line


def jsonl_import(case: tuple[bytes, list[str]], bus: Bus) -> None:
    """Every line is stored, known, or refused with a reason; a second import stores nothing."""
    data, entries = case
    newest = bus.log.newest_seq()
    exported = b""
    stored = 0
    try:
        fields = FieldMap(entries)
        with undone(bus):
            report = bus.import_jsonl(io.BytesIO(data), field_map=fields)
            stored = report.stored
            assert report.lines == report.stored + report.duplicates + report.skipped, report
            assert len(report.reasons) == report.skipped
            for _, reason in report.reasons:
                refused(InvalidInput(reason))
            found = list(bus.read(after_seq=newest))
            assert len(found) == stored
            exported = b"".join(each.to_line() + b"\n" for each in found)
            again = bus.import_jsonl(io.BytesIO(data), field_map=fields)
            assert (again.stored, again.skipped) == (0, report.skipped), again
    except (InvalidInput, ConflictMarkers) as error:
        refused(error)
        assert stored == 0
    assert bus.log.newest_seq() == newest
    if stored:
        with undone(bus):
            assert bus.import_jsonl(io.BytesIO(exported)).reasons == []
            lines = (each.to_line() + b"\n" for each in bus.read(after_seq=newest))
            assert b"".join(lines) == exported


def field_map(case: tuple[list[str], dict[str, Any]], _place: None) -> None:
    """A record becomes a message that can be stored, or the record or the map is refused."""
    entries, record = case
    try:
        FieldMap(entries).draft(record).prepare(0)
    except InvalidInput as error:
        refused(error)


def type_pattern(case: tuple[str, str], bus: Bus) -> None:
    """SQL finds what the pattern matches."""
    text, type = case
    try:
        pattern = TypePattern(text)
        assert isinstance(pattern.matches(type), bool)
        check_pattern(text)
        found = [each.seq for each in bus.read(type=text)]
    except InvalidInput as error:
        refused(error)
    else:
        assert found == [each.seq for each in bus.read() if pattern.matches(each.type)]


def path_pattern(case: tuple[str, str], _place: None) -> None:
    """Two patterns meet in either order; a pattern for a path matches it; none takes for ever."""
    try:
        patterns = [parse_pattern(text) for text in case]
    except InvalidInput as error:
        refused(error)
        return
    trees = []
    for pattern in patterns:
        assert parse_pattern(pattern.text).text == pattern.text
        tree: PathIndex[str] = PathIndex()
        tree.add(pattern, pattern.text)
        trees.append(tree)
    assert bool(list(trees[0].meeting(patterns[1]))) == bool(list(trees[1].meeting(patterns[0])))
    path = patterns[1].text
    if len(escape_path(path)) > MAX_PATH_CHARS:
        return
    itself = parse_pattern(escape_path(path))
    tree = PathIndex()
    tree.add(itself, "")
    assert tree.matching(path) == [""]
    if trees[0].matching(path):
        assert list(trees[0].meeting(itself))  # and perhaps also what is below it


def time(text: str, _place: None) -> None:
    """A time or a duration is refused, or a number that is written back as the same time."""
    for parse in (parse_ts, parse_duration_ms, lambda text: parse_since(text, 10**12)):
        try:
            number = parse(text)
        except InvalidInput as error:
            refused(error)
            continue
        assert type(number) is int
        assert number >= 0
        if parse is parse_ts:
            assert parse_ts(format_ts(number)) == number


def name(text: str, bus: Bus) -> None:
    """Names of all kinds: taken exactly or refused; a blob's never leads out of the store."""
    newest = bus.log.newest_seq()
    acts = [
        lambda: bus.leases.acquire(text, "alice"),
        lambda: bus.leases.acquire("build", text),
        lambda: bus.heartbeats.beat(text),
        lambda: Inbox(bus, text).poll(1),
        lambda: Inbox(bus, text).ack(1),
        lambda: bus.reservations.reserve([text], "alice", reason=text),
        lambda: bus.limits.set_for_inbox(text, 1),
        lambda: list(bus.read(conversation=text, agent=text)),
        lambda: bus.get(text),
        lambda: bus.publish("note", from_agent=text, to_agent=text, id=text),
        lambda: bus.publish("note", from_agent="alice", payload_ref=text),
        lambda: bus.blobs.verify(text),
        lambda: bus.blobs.size(text),
    ]
    for act in acts:
        with undone(bus):
            try:
                act()
            except AckbusError as error:
                refused(error)
    assert text not in bus.blobs
    assert bus.log.newest_seq() == newest


def search(words: list[str], bus: Bus) -> None:
    """Words find messages, or are refused; what is marked lies in the passage."""
    try:
        found = bus.search(*words)
    except InvalidInput as error:
        refused(error)
        return
    for each in found:
        for begin, end in each.marks:
            assert 0 <= begin < end <= len(each.snippet), each


def git_merge(case: tuple[bytes, bytes], _place: None) -> None:
    """A merge has every message of both sides, whichever comes first; merged again, it stays."""
    ours, theirs = (side.splitlines(keepends=True) for side in case)
    try:
        merged = merge(ours, theirs)
        assert merge(theirs, ours).conflicts == merged.conflicts
    except InvalidInput as error:
        refused(error)
        return
    if not merged.conflicts:
        assert merge(theirs, ours).lines == merged.lines
        assert merge(merged.lines, theirs).lines == merged.lines
    held = {record["id"] for _, record in records(merged.lines) if record is not None}
    whole = [line for line in ours + theirs if line.endswith(b"\n")]
    assert held >= {record["id"] for _, record in records(whole) if record is not None}


def worker_response(printed: bytes, _place: None) -> None:
    """The output of a command of the json contract is a response, or one line says why not."""
    try:
        response = parse_response(printed)
    except InvalidInput as error:
        refused(error)
    else:
        assert response["status"] in ("ok", "error")
