"""Repairing a bus: a new file beside the damaged one, checked, and only then in its place."""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager, suppress

import apsw

from ...bus.local_bus import LocalBus
from ...bus.log.catalog import Catalog
from ...schema.directory.discovery import refuse_place
from ...schema.directory.ignoring import keep_out_of_git
from ...schema.directory.layout import Layout, has_export, lost_file_hint
from ...schema.directory.lock_holders import refuse_openers
from ...schema.errors import BusNotFound, BusUnusable, Unfinished
from ...schema.findings import Mended, examine
from ...schema.message.draft import Draft
from ...schema.queries import file_of
from ...schema.sqlite.database import SCHEMA_VERSION, Database
from ...schema.sqlite.file_checks import is_of_other_version
from ...schema.sqlite.rules.column_rules import put_right
from ...schema.sqlite.versions import version_error
from ..checks.directory import checks_of_file
from ..checks.export import differences
from ..recovery.recover import Comparison
from .database import DatabaseMaker, mend_tasks, mend_work
from .files_beside import (
    ASIDE,
    READY,
    THEN,
    alone,
    finish,
    forget_ready,
    is_well,
    mend_archive,
    mend_blobs,
    mend_export,
    mend_search,
    newest_backup,
    open_backup,
    put_in_place,
    unfinished,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Where the new file is made, in the bus directory: a bus directory of its own.
_WORKSHOP = "repair.new"

#: The type of the message that tells everybody of a repair, and who it is from.
REPAIRED, _DOCTOR = "bus.repaired", "bus-doctor"


def repair_bus(
    directory: str | os.PathLike[str],
    *,
    backup: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
) -> Iterator[Mended]:
    """Bring a damaged bus back from what is intact, and tell of each part that needed it.

    The damaged file is read and never written. What is in it, in `bus.jsonl` and in a backup goes
    into a new file, with the seqs and ids that it had; that is checked from end to end, and takes
    the place of the damaged one, which is kept beside it under another name. Damaged blobs,
    segments and exports follow. Nothing is done to what is whole. Safe to repeat after a crash.

    Args:
        directory: the bus directory.
        backup: a copy that `bus backup` made; None looks for one near the bus.
        dry_run: make the new file, tell of it, and leave everything as it is.

    Raises:
        BusNotFound: there is nothing of a bus.
        Refused: another process has the bus open.
        BusUnusable: the bus is of another ackbus, stands where none can be opened, or the new
            file can't be written.
    """
    layout = Layout(directory)
    _refuse_nothing(layout)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    if (died := _died(layout)) is not None:
        yield from _finish_dead_repair(layout, died, dry_run)
        if dry_run:
            return
    if _is_unfinished(layout):
        yield Mended("file", "holds half a change of a program that was killed: SQLite undoes it")
        if dry_run:
            return
        with suppress(BusUnusable), closing(Database(layout.directory, any_version=True)):
            pass  # SQLite has undone it by now, unless the file is damaged as well
    is_damaged = _is_damaged(layout)
    if not is_damaged:
        mended = list(_repair_in_place(layout, dry_run))
        yield from mended
        if mended and dry_run:
            return  # the rest can be told when the state makes sense
    backup_path, passed_over = newest_backup(layout) if backup is None else (os.fspath(backup), [])
    with _opened(backup_path) as saved:
        if is_damaged or _differs(layout):
            for why in passed_over:
                yield Mended("backup", f"was passed over: {why}")
            if saved is not None:
                yield Mended("backup", f"{backup_path} was asked for what is lost")
            yield from _replace_file(layout, saved, stamp, dry_run)
            if dry_run:
                return
        with closing(LocalBus(Database(layout.directory, read_only=dry_run))) as bus:
            yield from _beside(bus, saved, stamp, dry_run)
            yield from mend_export(bus, stamp, dry_run)
            yield from mend_search(bus, dry_run)


def _beside(bus: LocalBus, saved: LocalBus | None, stamp: str, dry_run: bool) -> Iterator[Mended]:
    """Mend what the messages need; a dry run tells of it."""
    yield from mend_archive(bus, saved, stamp, dry_run)
    yield from mend_blobs(bus, saved, stamp, dry_run)


def _refuse_nothing(layout: Layout) -> None:
    if os.path.isdir(layout.directory):  # what a bus can't be opened for, and a new file won't mend
        refuse_place(layout)
    is_something = os.path.exists(layout.database) or has_export(layout)
    if not is_something and not lost_file_hint(layout) and not _died(layout):
        raise BusNotFound(f"nothing of a bus is in {layout.directory}; there is nothing to repair")


@contextmanager
def _opened(backup: str | None) -> Iterator[LocalBus | None]:
    if backup is None:
        yield None
        return
    with closing(open_backup(backup)) as saved:
        yield saved


def _is_damaged(layout: Layout) -> bool:
    """Whether SQLite finds damage in the file or its log, or it lacks a part of a bus.

    Raises:
        BusUnusable: it is whole, and of another ackbus.
    """
    try:
        with closing(Database(layout.directory, read_only=True, any_version=True)) as database:
            findings = list(examine(checks_of_file(database, full=True)))
            harmed = {finding.check for finding in findings if finding.state == "bad"}
            if harmed != {"schema"} or not is_of_other_version(database):
                return bool(harmed)
            version = database.schema_version()
    except (BusUnusable, BusNotFound):
        return True
    raise version_error(layout, version, SCHEMA_VERSION)


def _is_unfinished(layout: Layout) -> bool:
    """Whether a change that was never committed stands in the file, with a journal to undo it."""
    try:
        Database(layout.directory, read_only=True, any_version=True).close()
    except Unfinished:
        return True
    except (BusUnusable, BusNotFound):
        pass
    return False


def _differs(layout: Layout) -> bool:
    """Whether another copy of the messages, or the entries about them, shows damage in a file."""
    with closing(LocalBus(Database(layout.directory, read_only=True))) as bus:
        return _has_wrong_entries(bus) or bool(differences(bus).in_log)


def _repair_in_place(layout: Layout, dry_run: bool) -> Iterator[Mended]:
    """Put right the rows of a whole file that break a rule, where they are."""
    with closing(LocalBus(Database(layout.directory, read_only=dry_run))) as bus:
        yield from put_right(file_of(bus), dry_run=dry_run)
        if not dry_run:
            yield from mend_work(bus, ())
            yield from mend_tasks(bus)


def _has_wrong_entries(bus: LocalBus) -> bool:
    """Whether the bus has a wrong entry about an archived segment."""
    whole = (
        candidate for candidate in bus.archive.segments() if bus.archive.state_of(candidate) == "ok"
    )
    return not all(is_well(bus, segment) for segment in whole)


def _died(layout: Layout) -> str | None:
    return unfinished(layout) if os.path.isdir(layout.directory) else None


def _finish_dead_repair(layout: Layout, died: str, dry_run: bool) -> Iterator[Mended]:
    """Put the new file of a repair that died in its place."""
    if not dry_run:
        with alone(layout):
            refuse_openers(layout.database + ASIDE + died, THEN)
            finish(layout, died)
    hint = f"the message {REPAIRED} in it tells what was saved, and what was not"
    yield Mended("file", f"the new bus.db of a repair that died is in its place; {hint}")


def _replace_file(
    layout: Layout,
    saved: LocalBus | None,
    stamp: str,
    dry_run: bool,
) -> Iterator[Mended]:
    with _hold_bus(layout, dry_run), _workshop(layout, dry_run) as workshop:
        maker = DatabaseMaker(layout, saved)
        try:
            mended = list(maker.make(workshop.database))
        except apsw.Error as error:
            where = workshop.directory
            raise BusUnusable(f"no new file can be made in {where}: {error}") from error
        _compare(layout, workshop, maker, only_messages=maker.is_later)
        with closing(_new_bus(workshop, layout)) as bus:
            mended += put_right(
                file_of(bus)
            )  # what is known of segments, before they are read by it
            mended += _beside(bus, saved, stamp, dry_run)
            if maker.lacks_catalog:
                Catalog.of(bus).recount(bus.log)
            mended += _chain(bus, maker.lossy)
            mended += put_right(file_of(bus))
            mended += mend_work(bus, maker.lossy)
            mended += mend_tasks(bus)
            if mended:
                _publish_report(bus, mended)
            file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
            _check(bus)
        _compare(layout, workshop, maker, only_messages=True)  # rules may have removed other rows
        if dry_run:
            yield from mended
            return
        aside = put_in_place(layout, workshop.database, stamp)
    rest = f"; the damaged one is {os.path.basename(aside)}" if aside else ""
    yield from mended
    yield Mended("file", f"a new bus.db is in its place, checked from end to end{rest}")


def _chain(bus: LocalBus, lossy: Collection[str]) -> Iterator[Mended]:
    """Disable a chain with missing links; recomputing it would certify unverified messages."""
    if "chain" in lossy and bus.chain.is_on():
        bus.chain.switch_off()
        yield Mended(
            "chain",
            "is switched off; 'bus chain on' goes on with it",
            "what it had shown until now",
        )


@contextmanager
def _hold_bus(layout: Layout, dry_run: bool) -> Iterator[None]:
    """Hold the bus alone; a dry run, which replaces nothing, only looks for other programs."""
    if dry_run:
        refuse_openers(layout.database, THEN)
        yield
    else:
        with alone(layout):
            yield


@contextmanager
def _workshop(layout: Layout, dry_run: bool) -> Iterator[Layout]:
    """Yield a bus directory for the new file; a dry run removes it."""
    if not dry_run:
        for name in (f"{_WORKSHOP}/", f"*{ASIDE}*", f"*{READY}*"):
            keep_out_of_git(layout, name)
        forget_ready(layout)
        layout.blob_folder.make()
        layout.archive_folder.make()
    workshop = Layout(os.path.join(layout.directory, _WORKSHOP))
    layout.files.remove_with_contents(_WORKSHOP)  # of a process that died here
    layout.files.folder(_WORKSHOP).make()
    try:
        yield workshop
    finally:
        with suppress(OSError):  # the next one does it
            layout.files.remove_with_contents(_WORKSHOP)


def _new_bus(workshop: Layout, layout: Layout) -> LocalBus:
    """Open the new file, with the blobs, the archive and the export of the damaged one."""
    database = Database(workshop.directory, durability="full")
    for name in ("blobs", "blob_folder", "archive", "archive_folder", "jsonl"):
        setattr(database.layout, name, getattr(layout, name))
    return LocalBus(database)


def _publish_report(bus: LocalBus, mended: list[Mended]) -> None:
    """Publish a message to all about the losses, so that the newest seq has a message."""
    parts = [
        {"part": part.part, "done": part.text} | ({"lost": part.lost} if part.lost else {})
        for part in mended
    ]
    record = Draft(REPAIRED, {"parts": parts}, from_agent=_DOCTOR)
    bus.log.append([record])


def _check(bus: LocalBus) -> None:
    for finding in examine(checks_of_file(file_of(bus), full=True)):
        if finding.state == "bad":
            raise BusUnusable(
                f"the new file is not whole ({finding.check}: {finding.text}); bus.db is as it was"
            )


def _compare(
    layout: Layout, workshop: Layout, maker: DatabaseMaker, *, only_messages: bool
) -> None:
    """Raise unless the new file has every row that SQLite reads of the damaged one."""
    comparison = Comparison(layout.database, workshop.database, maker.corrected)
    if lacks := comparison.lacking(only_messages=only_messages):
        raise BusUnusable(
            f"the repair would lose what SQLite still reads: {lacks}; nothing was changed: put a"
            " backup in its place, or read the rows with the sqlite3 program"
        )
