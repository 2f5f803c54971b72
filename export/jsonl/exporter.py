"""The exporters that keep `bus.jsonl` equal to the log, for `tail -F` and for git, and their state.

`Exporter` is for who asks for an export, `BackgroundExporter` for a command that lives long. The
export at the end of a short command is in `automatic`, so that such a command loads neither.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing, contextmanager, suppress

from ...bus.doorbell import RECHECK_S, StopEvent, wait_for
from ...schema.arguments import with_checked_arguments
from ...schema.callbacks import check_progress
from ...schema.errors import AckbusError, BusMoved, InvalidInput, Refused, TimedOut, WrongProcess
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from .automatic import BACKGROUND_LOCK, UnaskedWriter, is_behind, reason_left_alone
from .jsonl_file import stamp_of
from .parts import NotImported, refuse_unknown
from .writer import Position, Writer, lock_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from logging import Logger

    from ...bus.local_bus import LocalBus
    from ...schema.directory.file_lock import FileLock
    from ...schema.directory.lock_holders import LockHolder
    from .jsonl_file import Stamp

#: The least time between two exports while messages keep coming, in seconds. Each export ends
#: with a commit, so without a pause the exporter would commit as often as all publishers together.
MIN_PAUSE_S = 0.02

#: How long `export_once` waits for an exporter that is already at work, in seconds.
WAIT_FOR_OTHER_S = 30.0

#: How long another exporter stands still before its file is checked, in seconds. A busy exporter is
#: seldom seen between the lines and the position, and reading a large file takes as long.
STILL_S = 0.25

#: The smallest size at which files are cut, in bytes. After each cut `tail -F` has to find the new
#: file before the next cut; where messages come fast it would miss lines of smaller files.
MIN_ROTATE_BYTES = 100_000

#: How often a command looks whether another one still exports in the background, in seconds.
TAKE_OVER_S = 1.0

#: How long a command that ends may go on exporting, in seconds.
_LAST_S = 1.0

#: The pauses after an export in the background that failed, from the first to the longest.
_PAUSES_S = (2.0, 300.0)

#: Errors that waiting can't cure; after other refusals, an import may still come.
_FOR_GOOD = (Refused, BusMoved, WrongProcess)
_BUS_IS_GONE = (BusMoved, WrongProcess)


class ExporterRunning(Refused):
    """Another exporter, in this process or another, is at work on this bus."""


@with_checked_arguments
class Exporter:
    """Appends new messages to `bus.jsonl`. Only one works on a bus at a time.

    Use `export_once` in a hook, `follow` in a process of its own, or `start` and `stop` (or
    `with Exporter(bus):`) for a thread beside other work.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._stop = StopEvent()
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._trouble = ""

    @property
    def position(self) -> int:
        """The seq of the last message in the file."""
        return Position.of(self._bus).get()

    def export_once(self, *, progress: Callable[[int], object] | None = None) -> int:
        """Append the missing messages; a file that has them all is left untouched.

        If another exporter is running, wait until it has written them or has ended.

        Args:
            progress: called now and then with the number of messages written so far.

        Returns:
            How many messages this call wrote.

        Raises:
            NotImported: the file was replaced, and has lines that this bus lacks.
            Refused: a file that is no part of it is where the next part must go.
            TimedOut: the other exporter did not get that far within 30 s.
            BusUnusable: the file can't be written.
        """
        check_progress(progress)
        lock = self._lock_unless_exported()
        if lock is None:
            return 0
        with closing(lock), self._writer() as writer:
            count = writer.catch_up(progress)
        # A command that published meanwhile found the lock taken, and has left.
        while is_behind(self._bus) and (lock := self._lock()) is not None:
            with closing(lock), self._writer() as writer:
                count += writer.catch_up()
        return count

    def rebuild(self, *, progress: Callable[[int], object] | None = None) -> int:
        """Write the file again from the whole log, and replace the old file atomically.

        Args:
            progress: called now and then with the number of messages written so far.

        Returns:
            How many messages it holds.

        Raises:
            ExporterRunning: another exporter is at work.
            NotImported: the old file has lines that this bus lacks; it is left alone.
            Refused: a foreign file is in the place of a part; nothing is changed.
            BusUnusable: the file can't be written; the old file is as it was.
        """
        check_progress(progress)
        with closing(self._lock_or_raise()), self._writer() as writer:
            return writer.rebuild(progress)

    def rotate(self, limit_bytes: int, *, progress: Callable[[int], object] | None = None) -> int:
        """Cut `bus.jsonl` where it would outgrow a size, now and in every later export.

        The older lines are in `bus-000001.jsonl` and so on; `bus.index.json` lists these files.
        All files are written again: the cuts depend on the log and the limit alone.

        Args:
            limit_bytes: the size, at least 100,000; 0 joins all parts in one file again.
            progress: called now and then with the number of messages written so far.

        Returns:
            How many messages the files hold.

        Raises:
            InvalidInput: the limit is too small.
            ExporterRunning: another exporter is at work.
            NotImported: the old files have lines that this bus lacks; nothing is changed.
            Refused: a foreign file is in the place of a part; the next export tries again.
            BusUnusable: the files can't be written; the next export does it then.
        """
        if limit_bytes and limit_bytes < MIN_ROTATE_BYTES:
            raise InvalidInput(
                f"files must be allowed {MIN_ROTATE_BYTES:,} bytes at least: where they are cut"
                " more often, 'tail -F' misses lines"
            )
        check_progress(progress)
        with closing(self._lock_or_raise()), self._writer() as writer:
            return writer.rotate(limit_bytes, progress)

    def follow(self) -> None:
        """Export every message soon after it is published; blocks until `stop` is called.

        It retries after a full disk or a locked bus, and waits for `bus import` when git has
        replaced `bus.jsonl`.

        Raises:
            ExporterRunning: another exporter is at work.
            Refused: a line of the file was not written by a bus, or a foreign file is in the place
                of the next part.
            BusMoved: the bus is no longer where it was.
        """
        with closing(self._lock_or_raise()), self._writer() as writer:

            def look() -> None:
                self._catch_up_patiently(writer)
                self._ready.set()
                time.sleep(MIN_PAUSE_S)

            wait_for(self._bus, look, recheck_s=RECHECK_S, stop=self._stop)
            self._catch_up_patiently(writer)

    def start(self) -> None:
        """Run `follow` in a thread; returns when it has exported what was there.

        It may be started again after `stop`, and after an error.

        Raises:
            ExporterRunning: another exporter is at work.
            Refused: a line of the file was not written by a bus, or a foreign file is in the place
                of the next part.
        """
        self._stop, self._failure = StopEvent(), None
        self._ready.clear()
        self._thread = start_thread(self._run, "ackbus-exporter")
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End `follow` after a last export; with `start`, wait for that. Safe in a signal handler.

        Raises:
            Exception: the thread had ended before, with this error.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            if self._failure is not None:
                raise self._failure

    def __enter__(self) -> Exporter:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self.follow()
        except Exception as error:  # `start` or `stop` raises it: no exporter ends in silence
            self._failure = error
        finally:
            self._ready.set()
            engine_of(self._bus).close_thread()

    def _catch_up_patiently(self, writer: Writer) -> None:
        """Export; errors that may pass are logged, and retried at the next look."""
        try:
            writer.catch_up()
            self._trouble = ""
        except AckbusError as error:
            if isinstance(error, _FOR_GOOD) and not isinstance(error, NotImported):
                raise
            if str(error) == self._trouble:
                return  # it was said before
            import logging

            self._trouble = str(error)
            logging.getLogger("ackbus.export").warning("bus.jsonl is behind: %s", error)

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        writer = Writer(self._bus)
        try:
            yield writer
        finally:
            writer.end()

    def _lock(self) -> FileLock | None:
        """Return the export lock, taken, or None when another exporter has it."""
        engine_of(self._bus).require_writable()  # its position could not be stored after the file
        lock = lock_on(self._bus.layout.export_lock)
        if lock.try_acquire():
            return lock
        lock.close()
        return None

    def _lock_unless_exported(self) -> FileLock | None:
        """Return the export lock, or None when another exporter has written all present messages.

        If it ends before that, the lock is taken here.
        """
        newest = self._bus.log.newest_seq()
        position = Position.of(self._bus)
        reached, still_since = position.get(), time.monotonic()
        deadline = still_since + WAIT_FOR_OTHER_S
        while (lock := self._lock()) is None:
            is_as_left = position.is_of(self._bus.layout.jsonl)
            before, reached = reached, position.get()
            if reached >= newest and (is_as_left or reached != before):
                return None
            now = time.monotonic()
            if reached != before:
                still_since = now
            elif not is_as_left and now > still_since + STILL_S:
                with suppress(FileNotFoundError):  # the other exporter may be cutting it
                    refuse_unknown(self._bus)  # it may wait for an import, and say so elsewhere
                still_since = time.monotonic()
            if now > deadline:
                raise TimedOut(
                    f"another exporter is at work, and did not reach message {newest}"
                    f" within {WAIT_FOR_OTHER_S:g} s"
                )
            time.sleep(MIN_PAUSE_S)
        return lock

    def _lock_or_raise(self) -> FileLock:
        position = Position.of(self._bus)
        begun = still_since = time.monotonic()
        reached = position.get()
        # A command that exports by itself has the lock for a moment, or until it has caught up.
        while (lock := self._lock()) is None:
            now, before, reached = time.monotonic(), reached, position.get()
            if reached != before and now < begun + WAIT_FOR_OTHER_S:
                still_since = now
            if now > still_since + STILL_S:
                break
            time.sleep(MIN_PAUSE_S)
        if lock is None:
            raise ExporterRunning(
                f"another exporter is at work on the bus in {self._bus.layout.directory}"
            )
        return lock


class _Stopped(Exception):
    """The time after a stop is over."""


class BackgroundExporter:
    """Exports beside a command that lives long, as long as no other command does.

    It gives way to an exporter that was asked for. What keeps it from exporting is logged once, and
    tried again.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._stop = StopEvent()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_s = float("inf")
        self._trouble = ""
        self._failed: Stamp | None = None
        self._pause_s = self._due_s = 0.0

    def start(self) -> None:
        """Begin, in a thread; returns at once."""
        self._thread = start_thread(self._run, "ackbus-export")

    def stop(self) -> None:
        """End after a last export, which gets a second."""
        self._last_s = time.monotonic() + _LAST_S
        self._ended.set()
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _LAST_S)

    def _run(self) -> None:
        try:
            while reason_left_alone(self._bus) is not None:  # not even the lock is made
                if self._ended.wait(TAKE_OVER_S):
                    return
            with closing(lock_on(self._bus.layout.files.path_of(BACKGROUND_LOCK))) as lock:
                while not lock.try_acquire():
                    if self._ended.wait(TAKE_OVER_S):
                        return
                wait_for(self._bus, self._look, recheck_s=RECHECK_S, stop=self._stop)
                self._look()
        except (AckbusError, OSError) as error:  # the bus is gone, or was closed
            self._log().debug("no export in the background: %s", error)
        except Exception as error:  # of damaged rows; the command itself goes on
            self._log().warning("no export in the background: %s", error)
        finally:
            engine_of(self._bus).close_thread()

    def _look(self) -> None:
        """Export what is new, unless another exporter is at work."""
        try:
            if self._is_pausing() or not is_behind(self._bus):
                return
            if reason_left_alone(self._bus) is not None:
                return
            with closing(lock_on(self._bus.layout.export_lock)) as lock:
                if lock.try_acquire():
                    self._catch_up()
        except (AckbusError, OSError) as error:
            if isinstance(error, _BUS_IS_GONE):
                raise
            self._say(str(error))
            first_s, longest_s = _PAUSES_S
            self._pause_s = min(max(first_s, 2 * self._pause_s), longest_s)
            self._due_s = time.monotonic() + self._pause_s
            self._failed = stamp_of(self._bus.layout.jsonl)
        if not self._stop.is_set:
            time.sleep(MIN_PAUSE_S)

    def _catch_up(self) -> None:
        writer = UnaskedWriter(self._bus)
        try:
            writer.catch_up(self._go_on)
            self._pause_s, self._trouble = 0.0, ""
        except _Stopped:
            return  # the next exporter goes on
        finally:
            writer.end()

    def _go_on(self, _: int) -> None:
        if time.monotonic() > self._last_s:
            raise _Stopped

    def _is_pausing(self) -> bool:
        """Whether an export has just failed, and the file is the same as then."""
        is_pausing = bool(self._pause_s) and time.monotonic() < self._due_s
        return is_pausing and stamp_of(self._bus.layout.jsonl) == self._failed

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._log().info("bus.jsonl is behind: %s", trouble)

    def _log(self) -> Logger:
        import logging

        return logging.getLogger("ackbus.export")


class ExportState:
    """The processes that export a bus, and how far the export is.

    Attributes:
        by: the processes that export; none where the system does not tell.
        last_seq: the last message in `bus.jsonl`.
        behind: how many seqs the log is further.
        left_alone: why commands don't export it unasked, or None: they do.
    """

    __slots__ = ("behind", "by", "last_seq", "left_alone")

    def __init__(self, bus: LocalBus) -> None:
        self.by = exporters(bus)
        self.last_seq = Position.of(bus).get()
        self.behind = bus.log.newest_seq() - self.last_seq
        self.left_alone = reason_left_alone(bus)

    def text(self) -> str:
        """Return it for people, in a line."""
        state = f"bus.jsonl has the log up to {self.last_seq}, {self.behind:,} behind"
        if self.by:
            return f"{state}; {self.by[0]} on {os.uname().nodename} exports"
        if self.left_alone is not None:
            return f"{state}; commands leave it alone: {self.left_alone}"
        return f"{state}; commands that publish export"

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        return {
            "by": [{"pid": process.pid, "command": process.command} for process in self.by],
            "host": os.uname().nodename,
            "last_seq": self.last_seq,
            "behind": self.behind,
            "left_alone": self.left_alone,
        }


def exporters(bus: LocalBus) -> list[LockHolder]:
    """Return the processes that export: one that was asked to, or else the one in the background.

    Locks are of one host, so they run on this one.
    """
    from ...schema.directory.lock_holders import holders

    return holders(bus.layout.export_lock) or holders(bus.layout.files.path_of(BACKGROUND_LOCK))
