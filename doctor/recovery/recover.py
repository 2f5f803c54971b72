"""All rows of a damaged bus file, brought into a new one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from ...schema.errors import BusUnusable
from ...schema.sqlite.database import SCHEMA_VERSION
from .as_sqlite import AsSqlite
from .damage import lost_messages
from .pages import Pages
from .salvage import Salvage
from .tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .new_file import NewFile
    from .records import Row
    from .tables import Table

#: A table that no older version of a bus has.
_NEWEST_TABLE = "tasks"


@dataclass(frozen=True, slots=True)
class TableFound:
    """The recovered rows of a table.

    Attributes:
        rows: how many are in the new file.
        refused: how many were read, and are no rows of that table.
        is_whole: whether nothing of it is known to be lost.
    """

    rows: int
    refused: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Recovered:
    """The recovered content of a damaged file.

    Attributes:
        tables: each table, by name.
        lost: the ids of messages that the file had once, and that can't be read, by seq.
        is_newest: whether nothing that was committed last can be missing without a trace.
        is_later: whether rows from behind damage in the log are among them, where SQLite stops.
        strangers: the tables that no bus has and that can't be read: other programs made them.
        taken_over: those that SQLite finds whole, and that are in the new file too.
    """

    tables: dict[str, TableFound]
    lost: dict[int, str]
    is_newest: bool
    is_later: bool
    strangers: list[str]
    taken_over: list[str]


def read_into(new: NewFile, database: str, log: str) -> Recovered:
    """Bring the rows of a damaged file and its write-ahead log into a new file.

    A table that SQLite finds whole is taken as SQLite reads it; of another its pages are read, and
    then whatever SQLite reads beyond. Only where the log is damaged, which SQLite does not tell,
    the pages come first: behind the damage may be newer rows.

    Raises:
        BusUnusable: the file is of an older or newer ackbus.
    """
    tables = parts_of_a_bus().tables
    with closing(_pages(database, log, tables)) as pages, closing(AsSqlite(database)) as sqlite:
        salvage = Salvage(pages, tables)
        _refuse_other_version(salvage)
        is_log_whole = _is_whole(pages)
        found = {}
        for table in tables.values():
            if is_log_whole and sqlite.finds_whole(table.name):
                found[table.name] = _taken(new, table, sqlite)
            else:
                found[table.name] = _salvaged(new, table, salvage, sqlite if is_log_whole else None)
        if not is_log_whole:  # of an earlier moment: what is deleted since must not come back
            new.add(tables["messages"], _not_archived(new, sqlite.rows_of(tables["messages"])))
        there = (seq for seq, _ in salvage.rows("messages"))
        lost = {} if found["messages"].is_whole else lost_messages(salvage, there)
        kept = [name for name in salvage.strangers if new.take_over(sqlite, name)]
        strangers = [name for name in salvage.strangers if name not in kept]
        return Recovered(found, lost, _is_newest(pages, found), not is_log_whole, strangers, kept)


def _taken(new: NewFile, table: Table, sqlite: AsSqlite) -> TableFound:
    added, refused = new.add(table, sqlite.rows_of(table))
    return TableFound(added, refused, not refused)


def _salvaged(new: NewFile, table: Table, salvage: Salvage, sqlite: AsSqlite | None) -> TableFound:
    added, refused = new.add(table, salvage.rows(table.name))
    is_whole = salvage.is_whole(table.name) and not refused
    if sqlite is not None:
        added += new.add(table, sqlite.rows_of(table))[0]
    return TableFound(added, refused, is_whole)


def _not_archived(new: NewFile, rows: Iterable[Row]) -> Iterable[Row]:
    return ((seq, row) for seq, row in rows if not new.has_message(seq))


def _is_newest(pages: Pages, found: dict[str, TableFound]) -> bool:
    """Whether the last commits are there: where rows are lost, the numbers and a log must show it.

    Without a log a file is as it was left by a program that ended well, or its log was removed.
    Where every row is there, it is taken for the one, as SQLite takes it.
    """
    if not _is_whole(pages):
        return False
    if all(table.is_whole for table in found.values()):
        return True
    counters = all(found[name].is_whole for name in ("messages", "sqlite_sequence", "fencing"))
    return counters and not pages.log.is_empty


def _pages(database: str, log: str, tables: dict[str, Table]) -> Pages:
    """Return the pages as they were last, also behind what is damaged in the log.

    Unless it is a power loss that took the end of a log: what is behind it then is of transactions
    that never were, and others have been given their numbers.
    """
    pages = Pages(database, log)
    if _is_whole(pages):
        return pages
    before = Pages(database, log, whole_log=False)
    earlier, later = (_ids(Salvage(each, tables)) for each in (before, pages))
    is_other = any(later.get(seq, id) != id for seq, id in earlier.items())
    (pages if is_other else before).close()
    return before if is_other else pages


def _is_whole(pages: Pages) -> bool:
    return pages.log.is_header_whole and not pages.log.damaged()


def _ids(salvage: Salvage) -> dict[int, object]:
    return {seq: values[1] for seq, values in salvage.rows("messages") if len(values) > 1}


def _refuse_other_version(salvage: Salvage) -> None:
    versions = [v[1] for _, v in salvage.rows("meta") if v[:1] == ["schema_version"]]
    version = str(versions[0]) if versions else ""
    found = int(version) if version.isdecimal() else SCHEMA_VERSION
    # Of a damaged number the tables know better.
    lacks_some = found < SCHEMA_VERSION and not salvage.is_whole(_NEWEST_TABLE)
    if lacks_some or (found != SCHEMA_VERSION and salvage.strangers):
        raise BusUnusable(
            f"the damaged file has schema version {version}, and only version {SCHEMA_VERSION} can"
            " be repaired; put a backup in its place"
        )
