"""The importer, which publishes lines of `bus.jsonl`, or of other programs, by their ids."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from ...schema.arguments import checked, with_checked_arguments
from ...schema.errors import BlobMissing, InvalidInput, NotActedUponWarning, Refused, shown
from ...schema.message.canonical_json import decode
from ...schema.message.draft import ABSENT, Draft, NotJson, parse_priority
from ...schema.message.names import MAX_PAYLOAD_BYTES
from ...schema.message.patterns import not_acted_upon
from ...schema.message.times import parse_ts
from .parts import ConflictMarkers, is_marker, refuse_markers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, BinaryIO

    from ...bus.local_bus import LocalBus

# Reading other programs' JSONL: the mapping of their fields to ours.

#: The names of a line of `bus.jsonl` that an import reads; the bus gives a new `seq`.
FIELDS = (
    *("id", "ts", "from", "to", "type", "correlation_id", "in_reply_to", "priority"),
    *("headers", "payload", "payload_ref"),
)

_HEADER = "headers."


@with_checked_arguments
class FieldMap:
    """The source of each field of a message.

    Without entries it reads lines of `bus.jsonl`. An entry `ours=theirs` reads our field from
    their field; `ours=theirs|text` takes the text where theirs is absent. `headers.NAME=theirs`
    puts their field into the headers; `headers.*=*` puts all fields there that nothing else reads.

    Args:
        entries: texts of one or more entries, separated by commas.

    Attributes:
        unread: the names of the ignored fields of all records so far.

    Raises:
        InvalidInput: an entry has another form, or names a field that messages do not have.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._sources: dict[str, tuple[str, str | None]] = {}
        self._headers: dict[str, str] = {}
        self._keeps_rest = False
        self.unread: set[str] = set()
        for entry in (part for text in entries for part in text.split(",")):
            self._add(entry)
        taken = {source for source, _ in self._sources.values()} | set(self._headers.values())
        for name in FIELDS:
            if name not in self._sources and name not in taken:
                self._sources[name] = (name, None)
        self._read = taken | {source for source, _ in self._sources.values()}
        self._read |= {"seq", "payload_error"}

    def _add(self, entry: str) -> None:
        ours, equals, theirs = entry.strip().partition("=")
        theirs, bar, default = theirs.partition("|")
        if not equals or not theirs:
            raise InvalidInput(f"{shown(entry)} is not a field map entry like type=kind")
        if entry.strip() == "headers.*=*":
            self._keeps_rest = True
        elif ours.startswith(_HEADER) and ours != _HEADER and not bar:
            self._headers[ours.removeprefix(_HEADER)] = theirs
        elif ours in FIELDS:
            self._sources[ours] = (theirs, default if bar else None)
        else:
            raise InvalidInput(
                f"messages have no field {shown(ours)}; they have {', '.join(FIELDS)}, headers.NAME"
            )

    def draft(self, record: Mapping[str, Any]) -> Draft:
        """Return the message of a record.

        Raises:
            InvalidInput: a field is missing or has no meaning for a message.
        """
        if not self._keeps_rest:
            self.unread |= record.keys() - self._read
        fields = {name: self._value(record, name) for name in FIELDS}
        for name in ("id", "from", "type"):
            if fields[name] is None:
                theirs = self._sources.get(name, (name,))[0]
                raise InvalidInput(f"it has no {shown(theirs)}; see --map")
        priority = fields["priority"]
        return Draft(
            fields["type"],
            _as_it_was_stored(self._payload(record), record),
            id=fields["id"],
            from_agent=fields["from"],
            to_agent=fields["to"],
            correlation_id=fields["correlation_id"],
            in_reply_to=fields["in_reply_to"],
            priority=1 if priority is None else parse_priority(priority),
            headers=self._all_headers(record, fields["headers"]),
            payload_ref=fields["payload_ref"],
            ts_ms=None if fields["ts"] is None else parse_ts(str(fields["ts"])),
        )

    def _value(self, record: Mapping[str, Any], name: str) -> Any:
        source, default = self._sources.get(name, (name, None))
        if name not in self._sources:
            return None  # their field of this name is read for something else
        value = record.get(source)
        return default if value is None else value

    def _payload(self, record: Mapping[str, Any]) -> object:
        source, default = self._sources.get("payload", (None, None))
        if source is not None and source in record:
            return record[source]
        return ABSENT if default is None else default

    def _all_headers(self, record: Mapping[str, Any], own: object) -> dict[str, object]:
        if own is not None and not isinstance(own, dict):
            raise InvalidInput("its headers are not a JSON object")
        headers: dict[str, object] = dict(own or {})
        headers.update(
            {name: record[source] for name, source in self._headers.items() if source in record}
        )
        if self._keeps_rest:
            headers.update({key: record[key] for key in record if key not in self._read})
        return headers


def _as_it_was_stored(payload: object, record: Mapping[str, Any]) -> object:
    """Return the payload; if it was not JSON, it is a string in the record."""
    if "payload_error" not in record:
        return payload
    if record["payload_error"] != "decode_failed" or not isinstance(payload, str):
        raise InvalidInput("its payload could not be had when it was exported")
    return NotJson(payload)


#: How many lines are stored in one transaction.
BATCH_LINES = 1000

#: How many bytes of lines are stored in one transaction even when they are fewer lines.
BATCH_BYTES = 8 * 1024 * 1024

#: The longest line that is read, in bytes: the largest payload, escaped, and room for the rest.
MAX_LINE_BYTES = 2 * MAX_PAYLOAD_BYTES

#: How many refused lines a report keeps in full; it counts them all.
MAX_REASONS = 1000


@dataclass(slots=True)
class ImportReport:
    """The result of an import.

    Attributes:
        lines: how many lines were read, without blank lines.
        stored: how many became messages.
        duplicates: how many were in the log already, with the same content.
        skipped: how many were refused.
        reasons: line number (from 1) and reason of the first 1,000 refused lines.
    """

    lines: int = 0
    stored: int = 0
    duplicates: int = 0
    skipped: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)

    def skip(self, number: int, reason: object) -> None:
        """Note a refused line."""
        self.skipped += 1
        if len(self.reasons) < MAX_REASONS:
            self.reasons.append((number, str(reason)))


@checked
def import_jsonl(
    bus: LocalBus,
    stream: BinaryIO,
    *,
    field_map: FieldMap | None = None,
    progress: Callable[[int], object] | None = None,
) -> ImportReport:
    """Publish every line of a stream that is not in the log yet, with its own id and time.

    Messages get new places in the log, in the order of the lines. Repeating an import, also after
    a crash, stores nothing twice. A line that can't be a message is skipped and reported; the
    others are stored, at most 1,000 lines or some 8 MiB in a transaction. Lines may come twice,
    and in any order. If git left conflict markers, or a line is longer than any of a message can
    be, nothing is stored; of a pipe, what was stored before stays.

    Args:
        bus: the bus.
        stream: open for reading bytes; read in bounded memory.
        field_map: the mapping of fields; None for lines of `bus.jsonl`.
        progress: called after each transaction with the number of bytes read so far.

    Raises:
        ConflictMarkers: git left a conflict in the lines.
        Refused: a line has more than `MAX_LINE_BYTES`.
        BusBusy, BusUnusable: the bus can't be written; messages stored before stay.
    """
    if stream.seekable():
        _refuse_markers_ahead(stream)
    fields = field_map or FieldMap()
    report = ImportReport()
    unacted: Counter[str] = Counter()
    batch: list[tuple[int, Draft]] = []
    done = stored = 0
    for number, line in enumerate(_lines(stream), 1):
        done += len(line)
        if line.isspace():
            continue
        if is_marker(line):
            raise ConflictMarkers(number)
        report.lines += 1
        try:
            batch.append((number, draft := _draft(line, fields)))
            unacted.update(filter(None, [not_acted_upon(draft.type)]))
        except InvalidInput as error:
            # Only the last line of a file can lack its end: its writer was cut short.
            whole = line.endswith(b"\n")
            report.skip(number, error if whole else f"the file ends within the line: {error}")
        if len(batch) >= BATCH_LINES or done - stored >= BATCH_BYTES:
            _store(bus, batch, report)
            batch, stored = [], done
            if progress is not None:
                progress(done)
    _store(bus, batch, report)
    if progress is not None:
        progress(done)
    for words, times in unacted.items():
        warnings.warn(NotActedUponWarning(f"{words} (lines: {times})"), stacklevel=3)
    report.reasons.sort()  # a batch reports what it could not read before what it could not store
    return report


def _refuse_markers_ahead(stream: BinaryIO) -> None:
    """Raise for a conflict marker anywhere in a stream that can be read again."""
    start = stream.tell()
    refuse_markers(_lines(stream))
    stream.seek(start)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines, each with its newline, if it has one.

    Raises:
        Refused: a line is too long. Its end is not looked for: there may be none.
    """
    for number in count(1):
        line = stream.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise Refused(
                f"line {number} has more than {MAX_LINE_BYTES:,} bytes, as no message has;"
                " nothing is read from there on: take it out, or name another file"
            )
        if not line:
            return
        yield line


def _draft(line: bytes, fields: FieldMap) -> Draft:
    record = decode(line, "the line")
    if not isinstance(record, dict):
        raise InvalidInput("the line is not a JSON object")
    return fields.draft(record)


def _store(bus: LocalBus, batch: list[tuple[int, Draft]], report: ImportReport) -> None:
    """Store a batch in one transaction; when a message is refused, try each by itself."""
    try:
        receipts = bus.log.append([draft for _, draft in batch], as_history=True)
    except (InvalidInput, Refused, BlobMissing):
        _store_singly(bus, batch, report)
        return
    duplicates = sum(receipt.duplicate for receipt in receipts)
    report.duplicates += duplicates
    report.stored += len(receipts) - duplicates


def _store_singly(bus: LocalBus, batch: list[tuple[int, Draft]], report: ImportReport) -> None:
    with bus.transaction():
        for number, draft in batch:
            try:
                (receipt,) = bus.log.append([draft], as_history=True)
            except (InvalidInput, Refused, BlobMissing) as error:
                report.skip(number, error)
            else:
                report.duplicates += receipt.duplicate
                report.stored += not receipt.duplicate
