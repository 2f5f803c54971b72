"""Being the only one: nobody may have a file open that is taken from its place.

Who has, would go on in a file without a name, and all that is committed there would be lost.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from ...schema import FileLock, Layout, Refused, holder, openers, sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the name of a file that was set aside has behind its own, before the time.
ASIDE = ".damaged-"

#: What SQLite keeps beside a file.
_LOG, _INDEX_OF_LOG = "-wal", "-shm"


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Keep all others from writing, exporting and archiving.

    Raises:
        Refused: somebody uses the bus.
    """
    locks = []
    try:
        for path in (layout.write_lock, layout.export_lock, layout.archive_lock):
            locks.append(FileLock(path))
            if not locks[-1].try_acquire():
                raise Refused(
                    f"a program holds {os.path.basename(path)}; end all that use the bus, then"
                    " repair it"
                )
        refuse_others(layout.database)
        yield
    finally:
        for lock in locks:
            lock.close()


def refuse_others(database: str) -> None:
    """Raise when another process has a file open.

    Raises:
        Refused: it says who.
    """
    others = [holder(pid) for pid in openers(database) if pid != os.getpid()]
    if others:
        raise Refused(f"{others[0]} has the bus open; end all that use it, then repair it")


def damaged_files(layout: Layout) -> tuple[str, str]:
    """Return where the damaged file and its log are: in their place, or set aside by a crash."""
    if os.path.exists(layout.database):
        return layout.database, layout.database + _LOG
    name = os.path.basename(layout.database) + ASIDE
    aside = sorted(
        each
        for each in os.listdir(layout.directory)
        if each.startswith(name) and "-wal" not in each
    )
    database = os.path.join(layout.directory, aside[-1]) if aside else layout.database
    logs = (database + _LOG, layout.database + _LOG)
    return database, next(filter(os.path.exists, logs), logs[0])


def put_in_place(layout: Layout, fresh: str, stamp: str) -> str | None:
    """Set the damaged file aside, with its log, and put the new one in its place.

    The file goes first: from then on nobody can open the bus until it is whole again.

    Returns:
        Where the damaged file is; None when there was none.

    Raises:
        Refused: somebody opened the bus meanwhile; all is as it was.
    """
    path = layout.database
    aside = path + ASIDE + stamp
    is_there = os.path.exists(path)
    if not is_there and not os.path.exists((earlier := damaged_files(layout)[0]) + _LOG):
        aside = earlier if earlier != path else aside  # of a repair that died: its log goes to it
    if is_there:
        os.rename(path, aside)
        try:
            refuse_others(aside)
        except Refused:
            os.rename(aside, path)
            raise
    if os.path.exists(path + _LOG):
        os.rename(path + _LOG, aside + _LOG)
    with suppress(FileNotFoundError):
        os.unlink(path + _INDEX_OF_LOG)
    os.rename(fresh, path)
    sync_directory(layout.directory)
    return aside if is_there or os.path.exists(aside + _LOG) else None


def set_aside(path: str, stamp: str) -> str:
    """Give a damaged file another name, and return that."""
    aside = path + ASIDE + stamp
    os.rename(path, aside)
    return aside
