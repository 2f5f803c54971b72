"""The settings that a bus has in its table `meta`: how durable it is, and that it is a backup.

`Database` reads both with the version, when a bus is opened; they hardly ever change, and here.
"""

from __future__ import annotations

from ..arguments import with_checked_arguments
from ..errors import InvalidInput, ReadOnlyBackup, shown
from ..message.times import age, format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..message.fields import Durability
    from .database import Database

#: How durable a commit can be: a power loss may take a `normal` commit, and never a `full` commit.
DURABILITIES = ("normal", "full")

#: Stores an entry: its key, and its value.
SET_META = """
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_GET = "SELECT value FROM meta WHERE key = ?"
_REMOVE = "DELETE FROM meta WHERE key = ?"
#: The entry that a backup has until it is taken into use: when it was made, in epoch milliseconds.
BACKUP = "backup_made_at_ms"
_DURABILITY = "durability"


@with_checked_arguments
class Settings:
    """The settings of a bus: `durability` and `backup_made_at_ms` of the table `meta`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def durability(self) -> Durability:
        """Return the durability of the bus, `normal` or `full`; this process may use more."""
        stored = self._database.value(_GET, (_DURABILITY,))
        return "normal" if stored in (None, "normal") else "full"

    def set_durability(self, durability: Durability) -> None:
        """Set the durability of each program that opens the bus from now on.

        A stronger durability also applies to this object at once; programs that have the bus open
        keep theirs. Safe to repeat.

        Args:
            durability: `full` (no power loss takes a commit, and each commit waits for the disk),
                or `normal` (a power loss can take the newest commits).

        Raises:
            InvalidInput: it is neither.
        """
        if durability not in DURABILITIES:
            raise InvalidInput(f"durability must be normal or full, not {shown(durability)}")
        with self._database.write():
            self._database.rows(SET_META, (_DURABILITY, durability))
        self._database.look_at_settings()

    def require_in_use(self) -> None:
        """Raise `ReadOnlyBackup` if the bus is a backup that was not taken into use."""
        self._database.require_writable()

    def take_into_use(self) -> None:
        """Turn a backup into a bus like any other; programs that have it open must open it again.

        A bus that is in use already is left as it is.
        """
        made_at_ms, self._database.backup_made_at_ms = self._database.backup_made_at_ms, None
        if made_at_ms is None:
            return
        try:
            self._database.change(_REMOVE, (BACKUP,))
        except BaseException:
            self._database.backup_made_at_ms = made_at_ms
            raise


def age_of_backup(made_at_ms: int, now_ms: int) -> str:
    """Return when a backup was made, for people: `made … (3 d ago)`."""
    return f"made {format_ts(made_at_ms)} ({age(max(0, now_ms - made_at_ms) / 1000)} ago)"


def refusal_of_backup(database: Database) -> ReadOnlyBackup:
    """Return the error for a write into a backup."""
    made_at_ms = database.backup_made_at_ms or 0
    age_text = age_of_backup(made_at_ms, database.now_ms())
    return ReadOnlyBackup(database.layout.directory, made_at_ms, age_text)
