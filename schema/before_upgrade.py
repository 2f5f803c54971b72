"""Programs that have had a bus open since before its upgrade.

They go on as they began, and look for messages only where their version had them: in the table. So
nothing may leave it for the archive while one of them runs.
"""

from __future__ import annotations

import os

import orjson

from .lock_holders import holder, openers, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .database import Database
    from .lock_holders import Holder


def note_old_programs(database: Database) -> None:
    """Store who has the file open, with when it began: its id may be another's one day.

    To be called in the transaction of an upgrade: who opens the file after it finds the new
    version. Where the system does not tell who has a file open, this stores nothing; nor of one
    that has ended meanwhile, or can't be seen from here: it would never be seen to end.
    """
    pids = openers(database.layout.database)
    there = [(pid, begun) for pid in pids if pid != os.getpid() and (begun := started(pid))]
    if there:
        noted = orjson.dumps(there).decode()
        database.change("INSERT OR REPLACE INTO meta VALUES ('old_programs', ?)", (noted,))


def old_programs(database: Database) -> list[Holder]:
    """Return those of them that still run."""
    noted = database.value("SELECT value FROM meta WHERE key = 'old_programs'")
    return [holder(pid) for pid, begun in orjson.loads(noted or "[]") if started(pid) == begun]
