"""Where the log and its export differ: messages never change, so one of them is damaged."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus import SegmentMissing
from ..position import Position
from .exported import Exported, whole_export

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus import Bus

#: How many differences are noted: more are no damage, but another log.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Differences:
    """The seqs at which the export has another message than the log, or the log has none.

    Attributes:
        in_log: those where the export's checksum is right: what is damaged is the log.
        unclear: those where it is not, or is not known.
    """

    in_log: list[int]
    unclear: list[int]


def differences(bus: Bus) -> Differences:
    """Compare the export with the log, line by line.

    Of an export that is not the log's own, as git leaves it after a merge, nothing is told.
    """
    sure = whole_export(bus.layout.jsonl, Position(bus.database).crc())
    exported = Exported(bus.layout, bus.blobs, sure)
    in_log: list[int] = []
    unclear: list[int] = []
    same = 0
    if exported.in_order():
        try:
            for message, line, is_sure in exported.lines():
                own = bus.log.at(message.seq)
                if own is not None and own.to_line() == line:
                    same += 1
                else:
                    (in_log if is_sure else unclear).append(message.seq)
                if len(in_log) + len(unclear) > _MOST + same:
                    break
        except SegmentMissing:  # which is another finding
            pass
    return (
        Differences(in_log, unclear) if same >= len(in_log) + len(unclear) else Differences([], [])
    )
