"""The check that no other program has a file open that is about to be taken from its place.

Such a program would go on in a file without a name, and all its commits would be lost.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ...schema.directory.exclusive_use import refuse_openers
from ...schema.directory.file_lock import FileLock
from ...schema.directory.layout import Layout
from ...schema.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.directory.folder import Folder

#: The suffix, before the time, of a damaged file that was set aside.
ASIDE = ".damaged-"

#: The suffix of a repaired file that is complete and not yet in its place.
READY = ".repaired-"

#: The step that is possible once no program has the file open, as the refusal tells it.
THEN = "repair it"

#: The suffixes of SQLite's files beside a database; left there, they would pass for the new one's.
_LOG, _JOURNAL, _INDEX_OF_LOG = "-wal", "-journal", "-shm"


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Hold the locks of writing, exporting and archiving inside the block.

    Raises:
        Refused: another program uses the bus.
    """
    locks: list[FileLock] = []
    try:
        for path in (layout.write_lock, layout.export_lock, layout.archive_lock):
            locks.append(FileLock(path))
            if not locks[-1].try_acquire():
                raise Refused(
                    f"a program holds {os.path.basename(path)}; end all that use the bus, then"
                    " repair it"
                )
        refuse_openers(layout.database, THEN)
        yield
    finally:
        for lock in locks:
            lock.close()


def put_in_place(layout: Layout, fresh: str, stamp: str) -> str | None:
    """Set the damaged file aside, with its log, and put the new one in its place.

    The file goes first: from then on no program can open the bus until it is whole. The new one
    is beside it then under a name with the same time, so that the next repair can go on from here.

    Returns:
        Where the damaged file is; None when there was none.

    Raises:
        Refused: another program opened the bus meanwhile; nothing has changed.
    """
    files, name = layout.files, os.path.basename(layout.database)
    workshop = files.folder(os.path.basename(os.path.dirname(fresh)))
    workshop.rename(name, name + READY + stamp, to=files)
    if files.look(name) is not None:
        files.rename(name, name + ASIDE + stamp)
        try:
            refuse_openers(layout.database + ASIDE + stamp, THEN)
        except Refused:
            files.rename(name + ASIDE + stamp, name)
            files.rename(name + READY + stamp, name, to=workshop)
            raise
    return finish(layout, stamp)


def unfinished(layout: Layout) -> str | None:
    """Return the time of a repair that died when the new file was to take its place, or None.

    A file that another repair has set aside is none: since then the bus went on.
    """
    if os.path.exists(layout.database) and os.stat(layout.database).st_size:
        return None
    for ready in _ready_files(layout):
        aside = ready.replace(READY, ASIDE)
        if os.path.exists(aside) or os.path.exists(aside + _LOG):
            return ready.rpartition(READY)[2]
    return None


def finish(layout: Layout, stamp: str) -> str | None:
    """Do the rest of `put_in_place`, once the damaged file is set aside; return where that is."""
    files, name = layout.files, os.path.basename(layout.database)
    aside = name + ASIDE + stamp
    for ending in (_LOG, _JOURNAL):
        if files.look(name + ending) is not None:
            files.rename(name + ending, aside + ending)
    files.remove(name + _INDEX_OF_LOG)
    files.rename(name + READY + stamp, name)
    files.sync()
    is_kept = any(files.look(each) is not None for each in (aside, aside + _LOG))
    return files.path_of(aside) if is_kept else None


def forget_ready(layout: Layout) -> None:
    """Remove the new files of repairs that died before they had set anything aside."""
    for ready in _ready_files(layout):
        layout.files.remove(os.path.basename(ready))


def _ready_files(layout: Layout) -> list[str]:
    names = sorted(layout.files.names())
    start = os.path.basename(layout.database) + READY
    return [os.path.join(layout.directory, name) for name in names if name.startswith(start)]


def keep_aside(folder: Folder, name: str, stamp: str) -> None:
    """Give a damaged file another name too, before a whole one takes its own."""
    folder.name_again(name, name + ASIDE + stamp)


def set_aside(folder: Folder, name: str, stamp: str) -> str:
    """Give a damaged file of a folder another name, and return its new path."""
    folder.rename(name, name + ASIDE + stamp)
    return folder.path_of(name + ASIDE + stamp)
