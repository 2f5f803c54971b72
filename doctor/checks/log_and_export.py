"""Differences of the log and its export: messages never change, so one of them is damaged."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus.errors import SegmentMissing
from ...export.jsonl.export_position import Position
from ...schema.message.message import Message, message_of
from .export_reader import Exported, row_of, whole_export

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus

#: With more lines than this that are others, an export whose checksum is not known is not trusted.
_DAMAGED_LINES = 2

#: How many differences are noted: more are no damage, but another log.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Differences:
    """The seqs at which the export has another message than the log, or the log has none.

    Attributes:
        in_log: those where the log is what is damaged: it has nothing there, or the checksum of
            the export is right.
        unclear: those where it is not, or is not known.
    """

    in_log: list[int]
    unclear: list[int]


def differences(bus: Bus) -> Differences:
    """Compare the export with the log, line by line.

    Of an export that is not the log's own, as git leaves it after a merge, nothing is told.
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


def _is_lost(bus: Bus, message: Message, line: bytes) -> bool:
    """Whether a line tells of a message that the log has lost, and is as a bus writes it."""
    is_own = message_of(row_of(message, line), bus.blobs).to_line() == line
    return is_own and bus.log.get(message.id) is None
