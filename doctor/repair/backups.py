"""The backup to repair from: the one that is named, or the newest near the bus."""

from __future__ import annotations

import os
from contextlib import suppress

from ...bus.bus import Bus
from ...export.backup.backup import MARK
from ...schema.directory.folder import Folder
from ...schema.errors import AckbusError, BusUnusable
from ...schema.findings import examine
from ...schema.message.canonical_json import decode
from ...schema.sqlite.database import Database
from ..checks.file import checks_of_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.directory.layout import Layout

#: The longest `backup.json` that is read, in bytes: it names what is lacking.
_MAX_MARK_BYTES = 16 * 1024**2


def open_backup(directory: str) -> Bus:
    """Open a backup to read in it, and check its file.

    Raises:
        BusNotFound, BusUnusable: there is none, it is damaged itself, or it is of another ackbus.
    """
    database = Database(directory, read_only=True)
    for finding in examine(checks_of_file(database, full=True)):
        if finding.state == "bad":
            database.close()
            raise BusUnusable(f"the backup in {directory} is damaged: {finding.text}")
    return Bus(database)


def newest_backup(layout: Layout) -> tuple[str | None, list[str]]:
    """Look for the newest whole backup of a bus in its project, or beside that.

    Returns:
        Where it is, or None; and why newer ones are of no use.
    """
    passed_over = []
    for _, directory in sorted(_backups(layout), reverse=True):
        try:
            open_backup(directory).close()
        except AckbusError as error:
            passed_over.append(str(error))
        else:
            return directory, passed_over
    return None, passed_over


def _backups(layout: Layout) -> Iterator[tuple[int, str]]:
    """Yield when each backup was made, and where it is."""
    project = os.path.dirname(layout.directory)
    for folder in (project, os.path.dirname(project)):
        with suppress(OSError):
            for name in os.listdir(folder):
                directory = os.path.join(folder, name)
                made_at_ms = _made_at_ms(directory, layout.directory)
                if made_at_ms is not None:
                    yield made_at_ms, directory


def _made_at_ms(directory: str, bus: str) -> int | None:
    """Return when a directory was made as a backup of a bus; None when it was not."""
    try:
        with Folder(directory).read(MARK) as file:
            mark = decode(file.read(_MAX_MARK_BYTES), MARK)
    except (OSError, AckbusError):
        return None
    if not isinstance(mark, dict) or mark.get("of") != bus:
        return None
    made_at_ms = mark.get("made_at_ms")
    return made_at_ms if isinstance(made_at_ms, int) else None
