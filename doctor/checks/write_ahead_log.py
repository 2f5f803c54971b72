"""Checks of the write-ahead log: whether it is whole, and whether a reader keeps it growing."""

from __future__ import annotations

import os
import time
from contextlib import closing

from ...schema.directory.lock_holders import is_known, readers
from ...schema.findings import bad, ok, warn
from ...schema.sqlite.file_checks import REPAIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.directory.layout import Layout
    from ...schema.findings import Finding
    from ...schema.sqlite.database import Database

#: SQLite empties the log into the file every 1,000 pages; so many more show that it can't.
_MANY_PAGES = 8000

#: How long a log is read to its end unless all is to be, in bytes: for half a second.
_QUICK_BYTES = 16 * 1024**2

#: A frame that is being written looks damaged, so only damage seen at every look counts.
_LOOKS, _PAUSE_S = 3, 0.05


def check_log(database: Database, full: bool) -> Finding:
    """Look at the log, and move nothing out of it: it may be the one place where something is."""
    _, pages, moved = database.rows("PRAGMA wal_checkpoint(NOOP)")[0]
    path = database.layout.database + "-wal"
    size = os.stat(path).st_size if os.path.exists(path) else 0
    text = f"{max(0, pages):,} pages not yet reused, {size / 1024**2:,.1f} MiB"
    if (full or size <= _QUICK_BYTES) and (harm := damage_of_log(database.layout)):
        return bad(harm, REPAIR)
    reading = readers(database.layout.database)
    if pages - moved < _MANY_PAGES or (is_known() and not reading):
        return ok(text)
    who = ", ".join(map(str, reading)) or "a reader"
    return warn(
        f"{text}; it grows, since {who} has been reading for long",
        "let it end its transaction, or end it",
    )


def damage_of_log(layout: Layout) -> str:
    """Return what is wrong with a log, in words; "" when it is whole."""
    found = ""
    for _ in range(_LOOKS):
        found = _look(layout)
        if not found:
            return ""
        time.sleep(_PAUSE_S)
    return found


def _look(layout: Layout) -> str:
    from ..recovery.pages import Pages

    with closing(Pages(layout.database, layout.database + "-wal")) as pages:
        log = pages.log
        if log.has_begun_anew():  # all that it had is in the file
            return ""
    if not log.is_header_whole:
        return "the beginning of bus.db-wal is damaged: what was committed last can't be read"
    if damaged := log.damaged():
        behind = len(log.frames) - log.break_at
        return (
            f"bus.db-wal is damaged in {damaged} places, or a power loss cut it short: SQLite"
            f" no longer reads the {behind:,} pages of commits from there on"
        )
    return ""
