"""The state that all exporters of a bus share: the export position, and the limit of rotation."""

from __future__ import annotations

from ...schema.process_table import boot_id
from ...schema.queries import Queries, Table
from .jsonl_file import stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsonl_file import Stamp

_SQL = Queries(beside=__file__)

#: How many words of the mark change with the file, when somebody sets the position, or with a power
#: loss: the seq, the file's inode, size and time, and the boot. The file is not synced, so a power
#: loss may take any of its bytes and leave its stamp. Its checksum follows.
_STAMPED = 5


class Position(Table):
    """The seq of the last message in `bus.jsonl`, as the database knows it."""

    def get(self) -> int:
        """Return the seq; 0 before the first export."""
        return self._engine.one_number(_SQL["position"], "export_state")

    def is_of(self, path: str) -> bool:
        """Whether a file is the exporter's own, unchanged since the last export."""
        stamp = stamp_of(path)
        if stamp is None:
            return False
        return self._mark()[:_STAMPED] == _words(self.get(), stamp)

    def crc(self) -> int | None:
        """Return the CRC-32 of the file as the exporter left it; None if unknown."""
        return crc_in_mark(self._mark())

    def set(self, seq: int, stamp: Stamp, crc: int) -> None:
        """Store the seq and the identity of the file; only the running exporter calls it."""
        mark = " ".join([*_words(seq, stamp), str(crc)])
        with self._engine.write():
            self._engine.change(_SQL["advance"], (seq,))
            self._engine.change(_SQL["set_mark"], (mark,))

    def _mark(self) -> list[str]:
        mark: str | None = self._engine.value(_SQL["mark"])
        return (mark or "").split(" ")


def _words(seq: int, stamp: Stamp) -> list[str]:
    return [str(each) for each in (seq, *stamp, boot_id())]


def crc_in_mark(mark: list[str]) -> int | None:
    """Return the checksum of the file in the mark of an export."""
    has_one = len(mark) > _STAMPED and mark[_STAMPED].isdecimal()
    return int(mark[_STAMPED]) if has_one else None


class Rotation(Table):
    """The size over which `bus.jsonl` is cut: an entry of the table `meta`."""

    def get(self) -> int:
        """Return the size in bytes; 0 when the file is never cut."""
        return int(self._engine.value(_SQL["rotation"]) or 0)

    def set(self, limit: int) -> None:
        """Store the size; the files must then be rewritten, under the same export lock."""
        self._engine.change(_SQL["set_rotation"], (str(limit),))
