"""Bytes of a database file or its write-ahead log, read through SQLite's own layer for files.

An ordinary `open` of them could cost this process its locks, and others the file; SQLite's layer
knows of its other handles. What is read so was not checked by anybody.
"""

from __future__ import annotations

import os

import apsw

from ...schema.directory.folder import locate

#: Every file is opened as a database, for which SQLite's layer counts locks by file. For a log it
#: would want the database too, which may be missing.
_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB


class RawFile:
    """A file that may be missing: then it is empty.

    Args:
        path: where it is.
    """

    def __init__(self, path: str) -> None:
        self._file: apsw.VFSFile | None = None
        self.size = 0
        folder, name = locate(path)
        if folder.has(name):
            self._file = apsw.VFSFile("", os.path.abspath(path), [_FLAGS, 0])
            self.size = self._file.xFileSize()

    def read(self, start: int, count: int) -> bytes:
        """Return bytes; fewer where the file ends, or the disk fails."""
        if self._file is None or start >= self.size:
            return b""
        try:
            return self._file.xRead(count, start)
        except apsw.IOError:  # this part of the disk is lost; what follows may not be
            return b""

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.xClose()
            self._file = None
