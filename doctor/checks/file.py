"""All checks of the bus file: those by SQLite itself, and of its write-ahead log."""

from __future__ import annotations

from ...schema.sqlite.file_checks import checks_of_database
from .write_ahead_log import check_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.findings import Check
    from ...schema.sqlite.database import Database


def checks_of_file(database: Database, *, full: bool = False) -> dict[str, Check]:
    """Return the checks of a file that SQLite can open.

    Args:
        database: opened with `any_version`.
        full: read everything, however long it takes.
    """
    return {
        **checks_of_database(database, full=full),
        "log": lambda: check_log(database, full),
    }
