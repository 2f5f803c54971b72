"""The states of the database: its tables at each moment of a record, as a power loss finds them.

A power loss takes a bus back to an earlier moment, and to nothing that it never was.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import apsw
from disk import Disk, Found
from record import shared_memory
from recorder import Event
from workloads import BUS

DATABASE, LOG = f"{BUS}/bus.db", f"{BUS}/bus.db-wal"

#: How long the heading of a page in the write-ahead log is, and how long the page, in bytes.
_HEADING_BYTES, _PAGE_BYTES = 24, 4096


class Moments:
    """The moments at which the tables changed.

    Args:
        events: of a record.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._begun: list[int] = []
        self._tables: list[bytes] = []
        for index, tables in _changes(events):
            self._begun.append(index)
            self._tables.append(tables)

    def last(self, tables: bytes, before: int) -> int | None:
        """Return the number of the last moment that began before an event and had such tables."""
        for number in range(bisect_right(self._begun, before) - 1, -1, -1):
            if self._tables[number] == tables:
                return number
        return None

    def at(self, index: int) -> int:
        """Return the number of the moment of an event; -1 before there were tables."""
        return bisect_right(self._begun, index) - 1


def _changes(events: Iterable[Event]) -> Iterator[tuple[int, bytes]]:
    disk = Disk()
    log, is_commit = 0, False
    for index, (name, *arguments) in enumerate(events):
        if name == "told":
            continue
        getattr(disk, name)(*arguments)
        if name == "create" and arguments[0] == LOG:
            log = arguments[1]
        if name == "write" and arguments[0] == log:
            data = arguments[2]
            if len(data) == _HEADING_BYTES:
                is_commit = data[4:8] != bytes(4)
            elif len(data) == _PAGE_BYTES and is_commit:
                yield index, _tables_on(disk)
        elif (name == "rename" and arguments[1] == DATABASE) or (
            name == "sync_all" and disk.has(DATABASE)
        ):
            yield index, _tables_on(disk)


def _tables_on(disk: Disk) -> bytes:
    """Return the digest of the tables as programs have them now."""
    state = disk.found("nothing lost", Random(0))
    with TemporaryDirectory(dir=shared_memory()) as folder:
        for path in (DATABASE, LOG):
            found = state.get(path)
            if isinstance(found, Found):
                Path(folder, os.path.basename(path)).write_bytes(found.content)
        connection = apsw.Connection(os.path.join(folder, "bus.db"), vfs=apsw.vfs_names()[0])
        try:
            return digest_of(connection)
        finally:
            connection.close()


def digest_of(connection: apsw.Connection) -> bytes:
    """Return the digest of all tables, with what they are made of."""
    digest = hashlib.blake2b(digest_size=16)
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name, type")
    for kind, name, sql in schema.fetchall():
        digest.update(repr((kind, name, sql)).encode())
        if kind == "table" and not str(name).startswith("sqlite_"):
            digest.update(repr(connection.execute(f"SELECT * FROM {name}").fetchall()).encode())
    return digest.digest()
