"""Checks of what is exported: whether `bus.jsonl` follows the log, and no part of it is lost."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from itertools import chain

from ...bus.errors import SegmentMissing
from ...export.jsonl.automatic import reason_left_alone
from ...export.jsonl.exporter import MIN_PAUSE_S, exporters
from ...export.jsonl.jsonl_file import crc_of, lines_of, stamp_of
from ...export.jsonl.parts import (
    CURE,
    ConflictMarkers,
    NotImported,
    RotatedParts,
    exported_files,
    last_in_log,
    refuse_markers,
    refuse_unknown,
    whole_parts,
)
from ...export.jsonl.writer import Position, Rotation
from ...schema.directory.lock_holders import holders
from ...schema.findings import bad, ok, warn
from ...schema.message.message import Message, message_of, message_of_line, payload_as_stored
from ...schema.message.names import MAX_SEQ
from ..recovery.salvage import ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...blobs.store import BlobStore
    from ...bus.local_bus import LocalBus
    from ...schema.directory.layout import Layout
    from ...schema.findings import Finding

    #: The columns of a message, in their order.
    Row = tuple[int | str | None, ...]

# The lines of `bus.jsonl` and its parts, as another copy of the log.

#: So many lines may be out of order in an export that is the log's own: their seqs are damaged.
_DAMAGED_SEQS = 2


class Exported:
    """The readable lines of the export.

    Args:
        layout: where the bus is.
        blobs: its blobs.
        sure: the files that are known to be as they were exported.
    """

    def __init__(self, layout: Layout, blobs: BlobStore, sure: frozenset[str]) -> None:
        self._files = exported_files(layout.jsonl)
        self._blobs = blobs
        self._sure = sure | whole_parts(layout.directory)

    def lines(self) -> Iterator[tuple[Message, bytes, bool]]:
        """Yield the messages of all whole lines, with the line, and whether it is surely right."""
        for path in self._files:
            is_sure = path in self._sure
            for line in lines_of(path):
                message = _message(line, self._blobs)
                if message is not None:
                    yield message, line.rstrip(b"\n"), is_sure

    def newest_seq(self) -> int:
        """Return the highest seq of a line; 0 where there is none."""
        return max((message.seq for message, _, _ in self.lines()), default=0)

    def in_order(self) -> bool:
        """Whether the lines are in the order of the log: those that git has merged are not."""
        before = lines = backwards = 0
        for message, _, _ in self.lines():
            lines += 1
            backwards += message.seq <= before
            before = message.seq
        return backwards <= _DAMAGED_SEQS + lines // 100


def whole_export(jsonl: str, crc: int | None) -> frozenset[str]:
    """Return the file in a set if its bytes match the checksum, else an empty set."""
    if crc is None or stamp_of(jsonl) is None:
        return frozenset()
    return frozenset({jsonl} if crc_of(lines_of(jsonl)) == crc else ())


def _message(line: bytes, blobs: BlobStore) -> Message | None:
    if not line.endswith(b"\n"):
        return None
    try:
        message = message_of_line(line[:-1], blobs)
        is_one = (type(message.seq), type(message.id)) == (int, str)
        return message if is_one and 0 < message.seq <= MAX_SEQ else None
    except (KeyError, ValueError, TypeError, AttributeError):  # whatever stands there instead
        return None


def row_of(message: Message, line: bytes) -> Row:
    """Return the columns of a line's message, from which the same line would be written."""
    return (
        message.seq,
        message.id,
        message.ts_ms,
        message.from_agent,
        message.to_agent,
        message.type,
        message.correlation_id,
        message.in_reply_to,
        payload_as_stored(line),
        message.payload_ref,
        message.priority,
        message.raw_headers,
    )


# Differences of the log and its export: messages never change, so one of them is damaged.

#: With more lines than this that are others, an export whose checksum is not known is not trusted.
_DAMAGED_LINES = 2

#: How many differences are noted: more are no damage, but another log.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Differences:
    """The seqs at which the export has another message than the log, or the log has none.

    Attributes:
        in_log: seqs at which the log is damaged: it has nothing there, or the checksum of
            the export is right.
        unclear: seqs at which the log is right, or nothing shows which of the two is.
    """

    in_log: list[int]
    unclear: list[int]


def differences(bus: LocalBus) -> Differences:
    """Compare the export with the log, line by line.

    An export that git has merged is not the log's own: no difference is reported then.
    """
    sure = whole_export(bus.layout.jsonl, Position.of(bus).crc())
    exported = Exported(bus.layout, bus.blobs, sure)
    in_log: list[int] = []
    unclear: list[int] = []
    same = 0
    if exported.in_order():
        for message, line, is_sure in exported.lines():
            try:
                own = bus.log.at(message.seq)
                is_lost = own is None and _is_lost(bus, message, line)
            except SegmentMissing:  # which is another finding
                continue
            if own is not None and own.to_line() == line:
                same += 1
            elif is_sure or is_lost:
                in_log.append(message.seq)
            else:
                unclear.append(message.seq)
            if len(in_log) + len(unclear) > _MOST + same:
                break
    if len(unclear) > _DAMAGED_LINES and not sure:
        in_log.clear()  # these are no messages of the log, and so may be what it has nothing of
    is_own = same >= len(in_log) + len(unclear)
    return Differences(in_log, unclear) if is_own else Differences([], [])


def _is_lost(bus: LocalBus, message: Message, line: bytes) -> bool:
    """Whether a line tells of a message that the log has lost, and is as a bus writes it."""
    is_own = message_of(row_of(message, line), bus.blobs).to_line() == line
    return is_own and bus.log.get(message.id) is None


#: How long an exporter that is behind may make no progress, in seconds: it looks every 2 s.
_PATIENCE_S = 3.0

#: How many lost parts a line has.
_NAMED = 5


def checks_of_export(bus: LocalBus, *, full: bool) -> dict[str, Callable[[], Finding]]:
    """Return the checks of what is exported; the full ones read every exported line."""
    return {
        "export": lambda: _export(bus),
        "bus.jsonl": lambda: _lines(bus, full),
        "archiver": lambda: _archiver(bus),
    }


def _export(bus: LocalBus) -> Finding:
    position = Position.of(bus).get()
    behind = _behind(bus, position)
    running = exporters(bus)
    if running and behind and not _gets_on(bus, position):
        return warn(f"{running[0]} exports, and does not get on: {behind:,} behind", "look at it")
    lost = RotatedParts(bus.layout.directory, Rotation.of(bus).get()).lacking() if position else []
    if lost:
        names = ", ".join(lost[:_NAMED]) + (" …" if len(lost) > _NAMED else "")
        mend = "'bus export' writes all parts again"
        if holders(bus.layout.export_lock):  # it looks at them only when it starts
            mend = f"stop {running[0]}; then {mend}"
        return warn(f"not there, or not as exported: {names}", mend)
    if running:
        return ok(f"{running[0]} exports, {behind:,} behind")
    left_alone = reason_left_alone(bus)
    unasked = (
        f"commands leave it alone: {left_alone}" if left_alone else "commands that publish export"
    )
    if not position:
        return ok(f"nothing was exported, and no exporter runs; {unasked}")
    if stamp_of(bus.layout.jsonl) is None:
        return warn(
            "bus.jsonl is not there: it was removed, or this is a backup, which has none",
            "'bus export' writes it",
        )
    if behind:
        text = f"bus.jsonl is {behind:,} behind, and no exporter runs; {unasked}"
        return warn(text, "run 'bus export'")
    return ok(f"everything was exported; no exporter runs; {unasked}")


def _behind(bus: LocalBus, position: int) -> int:
    """Return how many messages are not exported; after a repair a million seqs may have none."""
    newest = bus.log.newest_seq()
    if newest <= position:  # which is below it where another bus has taken the place of this one
        return newest - position
    in_archive = (
        min(segment.messages, segment.last_seq - position)
        for segment in bus.archive.segments()
        if segment.last_seq > position
    )
    return bus.log.count(position, newest) + sum(in_archive)


def _lines(bus: LocalBus, full: bool) -> Finding:
    """Look for errors of the next export."""
    files = exported_files(bus.layout.jsonl)
    if not files:
        return ok("none")
    position = Position.of(bus)
    if exporters(bus) and (not _behind(bus, position.get()) or _gets_on(bus, position.get())):
        return ok("an exporter is writing it")
    if not position.get() and not os.stat(files[-1]).st_size:
        return ok("none")  # a new bus begins with an empty one
    if full:
        return _compared(bus, files)
    if position.is_of(bus.layout.jsonl):
        return ok("as the last export left it; --full reads it")
    try:
        refuse_markers(lines_of(files[-1]))
    except ConflictMarkers as error:
        return bad(f"git conflict marker on line {error.number}", CURE)
    return warn(
        "not as the last export left it: that was stopped, or git or another program wrote it",
        "'bus export' goes on with it, or says what is in the way; so does --full",
    )


def _compared(bus: LocalBus, files: list[str]) -> Finding:
    try:
        refuse_unknown(bus)
    except NotImported as error:
        return bad(str(error), "'bus export' refuses it until then")
    last = last_in_log(bus, chain.from_iterable(map(lines_of, files)))
    if last is None:
        return _differing(bus)
    position = Position.of(bus).get()
    if last[0] < position:
        text = f"it ends at message {last[0]}, and was exported up to {position}"
        return bad(text, "'bus export' writes the rest")
    return ok("every line is that of the log")


def _differing(bus: LocalBus) -> Finding:
    """Return whether the log or the export is damaged, where that is known."""
    differing = differences(bus)
    if differing.in_log:
        text = (
            f"the log has lost or altered messages {ranges(differing.in_log)}, which are whole here"
        )
        return bad(text, "stop all programs, then 'bus doctor --repair'")
    if differing.unclear:
        text = f"its lines of messages {ranges(differing.unclear)} are not those of the log"
        return bad(text, "'bus doctor --repair' looks for which of the two is right")
    return warn("its lines are not those of the log", "'bus export --rebuild' writes it again")


def _gets_on(bus: LocalBus, position: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if Position.of(bus).get() > position:
            return True
        time.sleep(MIN_PAUSE_S)
    return False


def _archiver(bus: LocalBus) -> Finding:
    running = holders(bus.layout.archive_lock)
    return ok(f"{running[0]} is archiving" if running else "none runs")
