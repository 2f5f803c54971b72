"""What every exporter of a bus must know: how far the log was exported, and where files are cut."""

from __future__ import annotations

from ..schema import Queries, boot_id
from .jsonl_file import stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database
    from .jsonl_file import Stamp

_SQL = Queries(beside=__file__)


class Position:
    """The seq of the last message in `bus.jsonl`, as the database knows it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self) -> int:
        """Return it; 0 before the first export."""
        seq: int = self._database.value(_SQL["position"])
        return seq

    def is_of(self, path: str) -> bool:
        """Whether a file is the one that the exporter left there, as it left it."""
        stamp = stamp_of(path)
        if stamp is None:
            return False
        mark: str | None = self._database.value(_SQL["mark"])
        return mark == _mark(self.get(), stamp)

    def set(self, seq: int, stamp: Stamp) -> None:
        """Store it, and what tells the file from any other; only the one exporter does."""
        with self._database.write():
            self._database.change(_SQL["advance"], (seq,))
            self._database.change(_SQL["set_mark"], (_mark(seq, stamp),))


def _mark(seq: int, stamp: Stamp) -> str:
    """Return what changes with the file, when somebody sets the position, and with a power loss.

    The file is not synced, so a power loss may take any of its bytes and leave its stamp.
    """
    return " ".join(map(str, (seq, *stamp, boot_id())))


class Rotation:
    """The size over which `bus.jsonl` is cut: an entry of the table `meta`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self) -> int:
        """Return it, in bytes; 0 when the file is never cut."""
        return int(self._database.value(_SQL["rotation"]) or 0)

    def set(self, limit: int) -> None:
        """Store it; the files must then be written anew, under the same export lock."""
        self._database.change(_SQL["set_rotation"], (str(limit),))
