"""The lines of `bus.jsonl` and its parts, as another copy of the log."""

from __future__ import annotations

from ...export.jsonl.jsonl_file import crc_of, lines_of, stamp_of
from ...export.jsonl.parts import whole_parts
from ...export.jsonl.replaced_file import exported_files
from ...schema.message.limits import MAX_SEQ
from ...schema.message.lines import message_of_line, payload_as_stored

#: So many lines may be out of order in an export that is the log's own: their seqs are damaged.
_DAMAGED_SEQS = 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...blobs.store import BlobStore
    from ...schema.directory.layout import Layout
    from ...schema.message.message import Message

    #: The columns of a message, in their order.
    Row = tuple[int | str | None, ...]


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
    """Return a set of the file if its bytes give a checksum, and an empty one if not."""
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
    """Return the columns of the message that a line tells of, so that it gives that line again."""
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
