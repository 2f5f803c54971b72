"""Counters of what a process does: SQLite's statements and steps, writes, syncs, memory."""

import gc
import hashlib
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import apsw

from ackbus import Bus
from ackbus.schema.queries import file_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


@dataclass(frozen=True)
class Operation:
    """Something to count.

    Attributes:
        prepare: is given a bus, and returns the act itself.
        times: how often the act is done; what is counted is divided by this.
        each: of how many things one act consists; what is counted is divided by this too.
        memory: whether memory is counted, which must not depend on the machine.
    """

    prepare: Callable[[Bus], Callable[[], object]]
    times: int
    each: int = 1
    memory: bool = True


class _File(apsw.VFSFile):
    """A file of SQLite that counts its syncs."""

    def __init__(self, counts: dict[str, int], vfs: str, name: object, flags: list[int]) -> None:
        super().__init__(vfs, name, flags)  # type: ignore[arg-type]
        self._counts = counts

    def xSync(self, flags: int) -> None:
        self._counts["syncs"] += 1
        super().xSync(flags)


class _CountingVFS(apsw.VFS):
    """SQLite's way to the disk, with files that count."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._base = apsw.vfs_names()[0]
        super().__init__("counting", self._base, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> _File:
        return _File(self._counts, self._base, name, flags)


def make_repeatable() -> None:
    """Make ids and times the same in every run, so that the same pages of the file change.

    Each look at the clock finds a later millisecond.
    """
    ticks, noise = count(1_768_053_600_000), count()
    time.time_ns = lambda: next(ticks) * 1_000_000
    os.urandom = lambda size: hashlib.sha256(b"%d" % next(noise)).digest()[:size]


class Counters:
    """Counts for the process that it is made in: every connection that is opened from then on."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("statements", "transactions", "plans", "steps", "syncs"), 0)
        self._vfs = _CountingVFS(self._counts)
        apsw.connection_hooks.append(self._watch)
        self._fsync = os.fsync
        os.fsync = self._count_fsync

    def of(self, bus: Bus, operation: Operation) -> dict[str, float]:
        """The mean cost of one operation."""
        act = operation.prepare(bus)
        act()  # what is done once for each process is no cost of the operation
        file_of(bus).checkpointer.wait()  # the log can't be emptied while another empties it
        file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
        counted = self._done(bus, act, operation.times)
        divisor = operation.times * operation.each
        costs = {unit: round(count / divisor, 3) for unit, count in counted.items()}
        if operation.memory:
            return costs | {"peak_bytes": round(_peak(act) / operation.each)}
        del costs["kept_blocks"]
        return costs

    def _done(self, bus: Bus, act: Callable[[], object], times: int) -> dict[str, int]:
        self._counts.update(dict.fromkeys(self._counts, 0))
        kept: list[object] = [None] * times
        gc.collect()
        gc.disable()
        blocks, written = sys.getallocatedblocks(), _written()
        for number in range(times):
            kept[number] = act()
            file_of(bus).checkpointer.wait()  # beside the next act it would find other pages
        ended = _written()
        blocks = sys.getallocatedblocks() - blocks
        gc.enable()
        writes = {unit: ended[unit] - written[unit] for unit in written}
        return {**self._counts, **writes, "kept_blocks": blocks}

    def _watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note, id="counters")

    def _note(self, event: dict[str, object]) -> None:
        if "'main'.'words_" in str(event["sql"]):
            return  # of FTS5 itself, which counts on from one use to the next
        if event["sql"] == "PRAGMA schema_version":
            return  # a look at the file every 10 ms, whatever is done
        status = event["stmt_status"]
        assert isinstance(status, dict)
        self._counts["statements"] += 1
        self._counts["transactions"] += str(event["sql"]).startswith("BEGIN")
        self._counts["plans"] += status["SQLITE_STMTSTATUS_REPREPARE"]
        self._counts["steps"] += status["SQLITE_STMTSTATUS_VM_STEP"]

    def _count_fsync(self, fd: "FileDescriptorLike") -> None:
        self._counts["syncs"] += 1
        self._fsync(fd)


def _written() -> dict[str, int]:
    """The number of writes of this process, and of their bytes, by whatever way."""
    with open("/proc/self/io", encoding="ascii") as lines:
        numbers = dict(line.split(": ") for line in lines.read().splitlines())
    return {"writes": int(numbers["syscw"]), "bytes_written": int(numbers["wchar"])}


def _peak(act: Callable[[], object]) -> int:
    """The peak of Python's allocation for one act: the least of several."""
    tracemalloc.start()
    peaks = []
    for _ in range(5):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        act()
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return min(peaks)
