"""The `.gitignore` of a bus: git is to see nothing that lives, so that no sweep of its takes any.

`git clean` deletes, `git stash -u` carries away and `git add -A` stores what is neither tracked nor
ignored. So all is ignored by default, this file included; `bus setup git` lets in what it shares.
"""

from __future__ import annotations

import os

from .folder import Obstructed
from .layout import BUS_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TextIO

    from .layout import Layout

#: The name of the file.
IGNORING = ".gitignore"

#: The pattern of everything in the directory.
ALL = "*"

_HEADER = "# Written by ackbus: git leaves this alone. 'bus setup git' lets bus.jsonl in."

#: The names of what a bus has, for a directory that has files of a project too.
_NAMES = (
    *("/.gitignore", "/bus.db*", "/bus*.jsonl*", "/bus.index.json*", "/search.db*", "/*.lock"),
    *("/doorbell", "/backup.json", "/crew.json", "/archive/", "/blobs/", "/logs/", "/repair.new/"),
    *("/woken/", "/workers/", "/*.damaged-*", "/*.repaired-*"),
)

#: The names that git itself has in a directory, which make it no project's.
_OF_GIT = (IGNORING, ".gitattributes")

#: The longest file that is read, in bytes; people may have added to it.
_MAX_BYTES = 1024**2


def write_ignoring(layout: Layout, *, sync: bool = True) -> None:
    """Write the file where it is missing, or was left empty by a power loss.

    Args:
        layout: of the bus.
        sync: whether to wait for the disk.

    Raises:
        Obstructed: something else stands there.
        OSError: it can't be written.
    """
    with _opened(layout) as file:
        if os.fstat(file.fileno()).st_size == 0:
            os.fchmod(file.fileno(), 0o600)
            file.write(default_text(layout))
            file.flush()
            if sync:
                os.fsync(file.fileno())


def restore_ignoring(layout: Layout) -> None:
    """Write the file again where git has swept it away; a bus that is written to needs it.

    Where the file can't be written, the publisher goes on: its message is worth more, and `bus
    doctor` reports the missing file.
    """
    try:
        status = layout.files.look(IGNORING)
        if status is None or status.st_size == 0:
            write_ignoring(layout, sync=False)
    except OSError:
        return


def keep_out_of_git(layout: Layout, pattern: str) -> None:
    """Add a pattern to the file, also where an older version or a person wrote it."""
    write_ignoring(layout)
    with _opened(layout) as file:
        text = file.read()
        lines = text.splitlines()
        if pattern not in lines and ALL not in lines:
            file.write(f"{pattern}\n" if not text or text.endswith("\n") else f"\n{pattern}\n")


def default_text(layout: Layout) -> str:
    """Return the text of a new file: all, or in a directory with other files the names of ours."""
    return "".join(f"{line}\n" for line in (_HEADER, *_patterns(layout)))


def lacking_patterns(layout: Layout, lines: Collection[str]) -> list[str]:
    """Return the patterns that a file with these lines lacks to leave out all that lives."""
    return (
        [] if ALL in lines else [pattern for pattern in _patterns(layout) if pattern not in lines]
    )


def _patterns(layout: Layout) -> tuple[str, ...]:
    return _NAMES if _is_shared(layout) else (ALL,)


def _is_shared(layout: Layout) -> bool:
    """Whether a directory has files that are not of a bus, as with `--dir .`."""
    if os.path.basename(layout.directory) == BUS_DIRECTORY:
        return False
    from fnmatch import fnmatchcase  # a publisher needs it only where the file is missing

    patterns = [name.strip("/") for name in _NAMES]
    return not all(
        name in _OF_GIT or any(fnmatchcase(name, pattern) for pattern in patterns)
        for name in layout.files.names()
    )


def _opened(layout: Layout) -> TextIO:
    fd = layout.files.change(IGNORING)
    if os.fstat(fd).st_size > _MAX_BYTES:
        os.close(fd)
        raise Obstructed(layout.files.path_of(IGNORING), "is too large; put a shorter one there")
    return os.fdopen(fd, "r+", encoding="utf-8", errors="surrogateescape")
