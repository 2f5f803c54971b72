"""Backups: complete bus directories, opened with --dir like any other.

The file is copied first, as of a single moment; then the archive and the blobs that this copy
names. So the copy is complete: a blob is on the disk before the message that names it, a segment
before the bus knows it, and neither is removed or changed while it is named.

A backup is made in a directory beside its place, which is renamed when everything in it is on the
disk. The remains of a process that died on the way never have the name of a backup.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import closing, suppress
from dataclasses import dataclass

from ..bus.local_bus import LocalBus
from ..bus.log.archive_reader import segment_name
from ..bus.log.catalog import Catalog
from ..schema.callbacks import check_progress
from ..schema.directory.file_lock import FileLock
from ..schema.directory.folder import Folder
from ..schema.directory.ignoring import keep_out_of_git
from ..schema.directory.layout import Layout, sync_directory
from ..schema.errors import (
    AckbusError,
    BlobAltered,
    BlobMissing,
    BusUnusable,
    InvalidInput,
    Refused,
)
from ..schema.findings import examine
from ..schema.message.canonical_json import encode
from ..schema.queries import file_of
from ..schema.sqlite.database import Database
from ..schema.sqlite.file_checks import checks_of_database
from ..schema.sqlite.file_copy import copy_database
from ..schema.system_errors import unwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..bus.log.records import Segment

# The check of a copy of a bus, by its own files: a disk may store wrong bytes.


def verify_copy(copy: LocalBus, lacking: Collection[str]) -> None:
    """Check the file of a copy from end to end, its segments, and every blob that it names.

    Args:
        copy: an open bus, without writers.
        lacking: the names of blobs and segments that the bus itself has not.

    Raises:
        BusUnusable: something differs from the bytes that were written.
    """
    for finding in examine(checks_of_database(file_of(copy), full=True)):
        if finding.state == "bad":
            raise _damaged(copy, finding.text)
    for segment in copy.archive.segments():
        state = copy.archive.state_of(segment)
        if state != "ok" and not any(copy.archive.path(segment).endswith(name) for name in lacking):
            raise _damaged(copy, f"the segment from {segment.first_seq} on is {state}")
    for ref in copy.log.named_blobs():
        if ref not in lacking:
            try:
                copy.blobs.verify(ref)
            except (BlobAltered, BlobMissing) as error:
                raise _damaged(copy, str(error)) from error


def _damaged(copy: LocalBus, why: str) -> BusUnusable:
    return BusUnusable(f"what was written to {copy.layout.directory} is not what is read: {why}")


#: The file that marks a directory as a backup, and names its bus. Only a directory with this file
#: may be replaced by a later backup.
MARK = "backup.json"

#: The suffixes of a backup that is being made, and of a backup that is being replaced.
UNFINISHED, REPLACED = ".unfinished", ".replaced"


@dataclass(frozen=True, slots=True)
class Backup:
    """The result of a backup.

    Attributes:
        directory: where it is.
        messages: how many messages it has, without those in the archive.
        newest_seq: the newest of them.
        blobs, segments: how many of each were copied.
        lacking: the names of blobs and segments that the bus itself lacks, or has altered.
    """

    directory: str
    messages: int
    newest_seq: int
    blobs: int
    segments: int
    lacking: list[str]


def back_up(
    bus: LocalBus,
    directory: str | os.PathLike[str],
    *,
    replace: bool = False,
    on_progress: Callable[[int], object] | None = None,
) -> Backup:
    """Copy a whole bus into a new directory, while others use it, and check the copy.

    Args:
        bus: an open bus.
        directory: the directory to make; its parent must exist.
        replace: replace an earlier backup.
        on_progress: called now and then with the number of bytes copied.

    Raises:
        InvalidInput: the place is within the bus, or its parent does not exist.
        Refused: the place is taken, also by a backup that was taken into use, or another backup is
            being made.
        BusUnusable: the bus is damaged, or the copy can't be written; nothing is left at the place.
    """
    check_progress(on_progress)
    target = os.path.abspath(os.fspath(directory))
    _check_place(bus.layout, target, replace)
    fresh = target + UNFINISHED
    try:
        with suppress(FileExistsError):
            os.mkdir(fresh, 0o700)
        _check_own(fresh)
        lock = _lock(fresh)
        try:
            _clear(fresh, Layout(fresh).write_lock)  # of a process that died here
            backup = _Copier(bus, Layout(fresh), on_progress).run(target)
            _refuse_bus_in_use(target)  # again: it may have been taken into use meanwhile
            _put_in_place(fresh, target)
        except BaseException:
            with suppress(OSError):
                _remove(fresh, Layout(fresh).write_lock)
            raise
        finally:
            lock.close()
    except OSError as error:
        raise unwritable(target, error) from error
    return backup


def bytes_to_copy(bus: LocalBus) -> int:
    """Return about how many bytes a backup copies: the size of the bus's files and blobs."""
    layout = bus.layout
    segments = sum(segment.bytes for segment in bus.archive.segments())
    blobs = sum(_size(bus, ref) for ref in bus.blobs)
    return _database_bytes(layout) + segments + blobs


def _database_bytes(layout: Layout) -> int:
    status = layout.files.look(os.path.basename(layout.database))
    return 0 if status is None else status.st_size


def _size(bus: LocalBus, ref: str) -> int:
    try:
        return bus.blobs.size(ref)
    except BlobMissing:  # it was collected since its name was read
        return 0


def _check_place(layout: Layout, target: str, replace: bool) -> None:
    real, bus = os.path.realpath(target), os.path.realpath(layout.directory)
    if real == bus or real.startswith(bus + os.sep) or bus.startswith(real + os.sep):
        raise InvalidInput(f"{target} is within the bus, or holds it; choose another place")
    if not os.path.isdir(os.path.dirname(target)):
        raise InvalidInput(f"there is no directory {os.path.dirname(target)}")
    # Both are cleared on the way: they must be remains of backups, not a person's folders.
    for path, has in ((target + UNFINISHED, Layout(target).write_lock), (target + REPLACED, MARK)):
        _check_own(path)
        inside = os.path.join(path, os.path.basename(has))
        if os.path.lexists(path) and os.listdir(path) and not os.path.exists(inside):
            raise Refused(
                f"{path} is in the way, and is not of a backup; move it, or choose another place"
            )
    if not os.path.lexists(target):
        return
    _check_own(target)
    if not os.path.exists(os.path.join(target, MARK)):
        raise Refused(f"{target} is there, and is not a backup; choose another place")
    if not replace:
        raise Refused(
            f"{target} is a backup already; choose another place, or replace it (--force)"
        )
    _refuse_bus_in_use(target)


def _check_own(path: str) -> None:
    """Check that a directory to be cleared or filled is this user's, and no link.

    Through a link another directory would be cleared, such as a bus; another user's directory may
    have anything under the names that are written.
    """
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise Refused(
                f"{path} is in the way: it is no directory of yours; move it, or choose another"
                " place"
            )


def _refuse_bus_in_use(target: str) -> None:
    """Raise if a directory that was made as a backup is in use: it has mail of its own.

    The database says so; `backup.json` stays where a backup is restored or copied.
    """
    if not os.path.lexists(Layout(target).database):
        return
    try:
        with closing(Database(target, any_version=True, read_only=True)) as database:
            database.look_at_settings()
            is_backup = database.backup_made_at_ms is not None
    except AckbusError as error:
        raise Refused(
            f"{target} may be no backup, and is not replaced: {error};"
            " choose another place, or remove it"
        ) from error
    if not is_backup:
        raise Refused(f"{target} is a bus that was taken into use; choose another place")


def _lock(fresh: str) -> FileLock:
    lock = FileLock(Layout(fresh).write_lock)
    # Once it is had, the directory may have been given its name: then the lock is of that.
    if not lock.try_acquire() or not os.path.exists(Layout(fresh).write_lock):
        lock.close()
        raise Refused(f"another process is making {fresh.removesuffix(UNFINISHED)}; wait for it")
    return lock


def _clear(folder: str, but_for: str) -> None:
    Folder(folder).remove_all(but=os.path.basename(but_for))


def _remove(folder: str, sign: str) -> None:
    """Remove a folder of ours; the file that identifies it goes last.

    Otherwise the remains of a process that died on the way would look like a foreign folder.
    """
    _clear(folder, but_for=sign)
    Folder(folder).remove(os.path.basename(sign))
    os.rmdir(folder)


def _put_in_place(fresh: str, target: str) -> None:
    """Give the directory its name; an earlier backup keeps a name until that is done."""
    parent = os.path.dirname(target)
    earlier = target + REPLACED
    if os.path.exists(target):
        if os.path.exists(earlier):  # of a process that died at the end of this
            _remove(earlier, os.path.join(earlier, MARK))
        os.rename(target, earlier)
    os.rename(fresh, target)
    sync_directory(parent)
    if os.path.exists(earlier):
        _remove(earlier, os.path.join(earlier, MARK))


class _Copier:
    """Copies the parts of a bus, one after the other, and counts."""

    def __init__(
        self, bus: LocalBus, layout: Layout, on_progress: Callable[[int], object] | None
    ) -> None:
        self._bus = bus
        self._layout = layout
        self._blob_files = layout.blob_folder
        self._segment_files = layout.archive_folder
        self._on_progress = on_progress or (lambda done: None)
        self._done = 0
        self._lacking: list[str] = []
        self._made_at_ms = 0

    def run(self, target: str) -> Backup:
        """Copy everything, and sync it to the disk."""
        # A backup of a backup has messages no newer than the first one.
        self._made_at_ms = self._bus.backup_made_at_ms or self._bus.now_ms()
        Catalog.of(self._bus).try_to_catch_up(
            self._bus.log.newest_seq()
        )  # the copy's can't any more
        copy_database(
            file_of(self._bus),
            self._layout.database,
            backup_made_at_ms=self._made_at_ms,
            on_progress=self._on_progress,
        )
        self._done = _database_bytes(self._layout)
        with LocalBus.open(self._layout.directory) as copy:
            segments = sum(self._segments(copy))
            blobs = sum(self._blobs(copy))
            verify_copy(copy, self._lacking)
            newest = copy.log.newest_seq()
            archived = sum(segment.messages for segment in copy.archive.segments())
            messages = archived + copy.log.count(copy.archive.upto(), newest)
        backup = Backup(target, messages, newest, blobs, segments, self._lacking)
        keep_out_of_git(self._layout, "archive/")
        self._mark(backup)
        for folder in (self._blob_files, self._segment_files, self._layout.files):
            folder.sync()
        return backup

    def _segments(self, copy: LocalBus) -> Iterator[bool]:
        """Copy the segments that the copy knows, each checked; yield whether it was."""
        self._segment_files.make()
        for segment in copy.archive.segments():
            name = segment_name(segment.first_seq)
            is_whole = self._copy_segment(segment) and copy.archive.state_of(segment) == "ok"
            if not is_whole:
                self._lacking.append(name)
            self._moved(segment.bytes)
            yield is_whole

    def _copy_segment(self, segment: Segment) -> bool:
        if self._bus.archive.apparent_state_of(segment) != "ok":  # it may be of any size
            return False
        try:
            source = self._bus.archive.open(segment)
        except OSError:  # what can't be read keeps nothing else from being saved
            return False
        with source, self._segment_files.new(segment_name(segment.first_seq)) as file:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
        return True

    def _blobs(self, copy: LocalBus) -> Iterator[bool]:
        """Copy the blobs that messages of the copy name, each checked; yield whether it was."""
        self._blob_files.make()
        for ref in copy.log.named_blobs():
            is_whole = ref in self._bus.blobs and self._copy_blob(ref)
            if not is_whole:
                self._lacking.append(ref)
            yield is_whole

    def _copy_blob(self, ref: str) -> bool:
        try:
            with self._blob_files.new(ref) as file:
                size = self._bus.blobs.copy(ref, file)
                file.flush()
                os.fsync(file.fileno())
        except (BlobAltered, BlobMissing, BusUnusable):  # what can't be read keeps nothing back
            self._blob_files.remove(ref)
            return False
        self._moved(size)
        return True

    def _moved(self, size: int) -> None:
        self._done += size
        self._on_progress(self._done)

    def _mark(self, backup: Backup) -> None:
        record = {
            "of": self._bus.layout.directory,
            "made_at_ms": self._made_at_ms,
            "messages": backup.messages,
            "newest_seq": backup.newest_seq,
            "lacking": backup.lacking,
        }
        with self._layout.files.new(MARK) as file:
            file.write(encode(record, MARK) + b"\n")
            file.flush()
            os.fsync(file.fileno())
