"""The measurements of a run: the write-ahead log, and the resources of long-living processes."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from ..schema.directory.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: How often is measured, in seconds.
MEASURE_EVERY_S = 1.0

#: Processes that lived for fewer measurements tell nothing of growth: they were filling caches.
MIN_MEASUREMENTS = 60

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one number in the processes that lived long.

    Attributes:
        processes: how many these were.
        first, last: the median of the first and of the last third of their lives.
        most_grown: by how much it grew in the process where it grew most, between these thirds.
        max: the largest value of all.
    """

    processes: int
    first: float
    last: float
    most_grown: float
    max: float


class Measures:
    """Takes measurements of one run.

    Attributes:
        max_wal_bytes: how long the write-ahead log was at most.
        clock_step_ms: by how much the machine's clock was put forward or back meanwhile, at most.
    """

    def __init__(self, bus_directory: str) -> None:
        self._wal = Layout(bus_directory).database + "-wal"
        self.max_wal_bytes = 0
        self.clock_step_ms = 0.0
        self._clock = _clock_difference_ms()
        self._memory: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._descriptors: dict[tuple[str, int], list[int]] = defaultdict(list)

    def take(self, processes: Mapping[str, tuple[int, int]]) -> None:
        """Measure once.

        Args:
            processes: the life and the process of each agent.
        """
        self.max_wal_bytes = max(self.max_wal_bytes, _size(self._wal))
        self.clock_step_ms = max(self.clock_step_ms, abs(_clock_difference_ms() - self._clock))
        for name, (life, pid) in processes.items():
            used = _usage(pid)
            if used is not None:
                self._memory[name, life].append(used[0])
                self._descriptors[name, life].append(used[1])

    @property
    def memory(self) -> Growth | None:
        """Of resident memory, in bytes; None where no process lived long."""
        return _growth(self._memory)

    @property
    def descriptors(self) -> Growth | None:
        """Of open file descriptors; None where no process lived long."""
        return _growth(self._descriptors)


def _growth(lives: Mapping[tuple[str, int], list[int]]) -> Growth | None:
    long = [values for values in lives.values() if len(values) >= MIN_MEASUREMENTS]
    if not long:
        return None
    firsts = [median(values[: len(values) // 3]) for values in long]
    lasts = [median(values[-len(values) // 3 :]) for values in long]
    grown = max(last - first for first, last in zip(firsts, lasts, strict=True))
    return Growth(len(long), median(firsts), median(lasts), grown, max(map(max, long)))


def _usage(pid: int) -> tuple[int, int] | None:
    """Return resident memory and open descriptors; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident = int(file.read().split()[1]) * _PAGE_BYTES
        return resident, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):  # it has ended, or this is no Linux
        return None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _clock_difference_ms() -> float:
    return (time.time() - time.monotonic()) * 1000
