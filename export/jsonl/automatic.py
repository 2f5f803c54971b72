"""The exports that commands make without being asked, so that `bus.jsonl` is there when one looks.

No process is started for that. Of the commands that live long, one has the lock `background.lock`,
and exports in a thread; the others wait for that lock. A short command that has published appends
what is missing at its end: some lines, under locks that are free. What would take longer, such as a
file that git has replaced, is left to a command that lives long, or to `bus export`.

A command that was asked to export goes first: it has the export lock as long as it works, and these
have it only for the moment in which they append.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from itertools import islice

from ...bus.maintenance import Maintenance
from ...schema.directory.file_lock import is_locked
from ...schema.directory.layout import EXPORT_VARIABLE, may_export_unasked
from ...schema.errors import AckbusError, BusBusy
from ...schema.queries import engine_of
from ...schema.system_errors import unwritable
from .jsonl_file import JsonlFile
from .parts import INDEX, RotatedParts, last_in_log, part_name
from .writer import Automatic, Position, Rotation, Writer, lock_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message

#: The name of the lock of the command that exports beside its work.
BACKGROUND_LOCK = "background.lock"

#: How long a command exports at its end, in seconds, and how many lines it appends at a time.
BRIEFLY_S = 0.02
BRIEF_LINES = 200

#: The largest file that a short command reads or cuts, in bytes: a few milliseconds.
BRIEF_BYTES = 4 * 1024 * 1024

#: How old a missing message is that a command beside its work would have exported, in milliseconds.
_STOPPED_MS = 2000

#: How long it waits for a writer, which has the write lock for a moment, in seconds.
_NAP_S = 0.001


def reason_left_alone(bus: LocalBus) -> str | None:
    """Return why commands don't export this bus unasked, or None: they do."""
    if not may_export_unasked():
        return f"{EXPORT_VARIABLE} is {os.environ[EXPORT_VARIABLE]!a}"
    if bus.backup_made_at_ms is not None:
        return "this is a backup"
    own = os.geteuid()
    if os.stat(bus.layout.directory).st_uid != own:
        return "this bus is another user's"
    there = bus.layout.files.look(os.path.basename(bus.layout.jsonl))
    if there is not None and there.st_uid != own:
        return f"{bus.layout.jsonl} is another user's"
    return None if Automatic.of(bus).get() else "this bus is set so: 'bus export --auto on'"


def export_briefly(bus: LocalBus) -> None:
    """Append what is missing, for 20 ms at most, unless that takes longer or somebody exports.

    Raises:
        AckbusError: the file can't be written, or needs more than lines at its end.
    """
    deadline_s = time.monotonic() + BRIEFLY_S
    if engine_of(bus).writing or reason_left_alone(bus) is not None or _is_exported_elsewhere(bus):
        return  # what an open transaction has is no message yet
    while is_behind(bus):
        try:
            if not _append(bus, _BriefWriter):
                return
        except BusBusy:  # a writer is in its transaction
            time.sleep(_NAP_S)
        if time.monotonic() > deadline_s:
            return


def export_all(bus: LocalBus) -> None:
    """Append all that is missing, however long it takes, unless somebody exports.

    Raises:
        AckbusError: as for `Exporter.export_once`.
    """
    if engine_of(bus).writing:
        return
    while is_behind(bus) and reason_left_alone(bus) is None and _append(bus, UnaskedWriter):
        pass  # others may have found the lock taken meanwhile


def _append(bus: LocalBus, kind: type[Writer]) -> int:
    """Append by a writer, and return how many lines; 0 where another exporter is at work."""
    with closing(lock_on(bus.layout.export_lock)) as lock:
        if not lock.try_acquire():
            return 0  # its holder looks for new messages once more when it has given it back
        writer = kind(bus)
        try:
            return writer.catch_up()
        finally:
            writer.end()


def is_behind(bus: LocalBus) -> bool:
    """Whether the log has messages after the last one that was exported."""
    return Position.of(bus).get() < bus.log.newest_seq()


def _is_exported_elsewhere(bus: LocalBus) -> bool:
    """Whether a command exports beside its work; not one that is stopped, as by Ctrl-Z."""
    try:
        with bus.layout.files.read(BACKGROUND_LOCK) as file:
            if not is_locked(file):
                return False
    except (FileNotFoundError, PermissionError):  # another user's command has left it
        return False
    except OSError as error:
        raise unwritable(bus.layout.files.path_of(BACKGROUND_LOCK), error) from error
    missing = bus.log.at(Position.of(bus).get() + 1)
    return missing is None or missing.ts_ms > bus.now_ms() - _STOPPED_MS


class UnaskedWriter(Writer):
    """Appends under locks that are free soon: nobody is to wait for it."""

    wait_s = 1.0


class _TakesLonger(AckbusError):
    """An export needs more time than a short command has."""


class _BriefWriter(Writer):
    """Appends some lines under locks that are free, and leaves alone what takes longer."""

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self._lock.try_acquire():
            raise _TakesLonger("another program has the files")
        try:
            # Lines without their position would have to be compared with the log: so nothing is
            # waited for between the two. A power loss may take both.
            unsynced = Maintenance(self._bus).unsynced_commits()
            with unsynced, engine_of(self._bus).write(timeout_s=0):
                yield
        finally:
            self._lock.release()

    def _open(self, progress: Callable[[int], object] | None) -> int:
        """Open the file, without a look at all that is in its directory if that is not needed."""
        self._limit = Rotation.of(self._bus).get()
        if self._limit or not self._position.is_of(self._path):
            self._refuse_large(INDEX)
            parts = RotatedParts(self._bus.layout.directory, self._limit).recorded()
            self._refuse_large(part_name(len(parts) + 1))  # one that was just cut is read
            return super()._open(progress)
        self._file = JsonlFile(self._path)
        self._go_on()
        return 0

    def _refuse_large(self, name: str) -> None:
        status = self._bus.layout.files.look(name)
        if status is not None and status.st_size > BRIEF_BYTES:
            raise _TakesLonger(f"{name} is large")

    def _missing(self) -> Iterator[Message]:
        return islice(super()._missing(), BRIEF_LINES)

    def _append(self, lines: list[bytes]) -> None:
        assert self._file is not None
        size = self._file.size + sum(len(line) + 1 for line in lines)
        if self._limit > BRIEF_BYTES and size > self._limit:
            raise _TakesLonger("the file is full: the next part is large")
        super()._append(lines)

    def _resumed(self) -> tuple[int, int]:
        """Return where the file ends, if it is empty, or was only added to since the last export.

        That shows in its beginning: its checksum was stored with the position. So a command that
        was killed on the way costs the next one no comparison of all lines.
        """
        assert self._file is not None
        if not self._file.size and not self._parts.last_seq:
            return 0, 0
        size, crc = self._position.size_and_crc() or (0, None)
        if size <= self._file.size <= BRIEF_BYTES and self._file.crc_upto(size) == crc:
            lines = self._file.lines(size)
            resumed = last_in_log(self._bus, lines, after_seq=self._position.get())
            if resumed is not None:
                return resumed
        self._safe_to_replace()

    def _safe_to_replace(self) -> NoReturn:
        """Raise: what is in the files is not looked through by a short command."""
        raise _TakesLonger(f"{self._path} is not as it was left; 'bus export' looks through it")
