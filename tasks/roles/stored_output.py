"""The output of a worker's job, stored in the bus while the program runs.

The thread that reads the program's pipes must not wait for the bus, so another one stores.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from ...schema.errors import AckbusError
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ..records.job_output import JobOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread

    from ...bus.bus import Bus
    from ..programs.output_lines import OutputLine

#: Seconds between two transactions: a line shows so much later.
_PAUSE_S = 0.3

#: How many lines of one job wait to be stored at most, and are stored at all: a program that prints
#: without end must fill neither memory nor the bus.
_WAITING, _MOST = 5_000, 100_000

_log = logging.getLogger("ackbus.tasks.worker")


class StoredOutput:
    """Stores the lines of one job, from `__enter__` to the end of the `with` block.

    Args:
        bus: the bus.
        seq: the message of the job.
    """

    def __init__(self, bus: Bus, seq: int) -> None:
        self._engine = engine_of(bus)
        self._output = JobOutput.of(bus)
        self._seq = seq
        self._lines: deque[OutputLine] = deque(maxlen=_WAITING)
        self._left = _MOST
        self._over = threading.Event()
        self._thread: Thread | None = None

    def take(self, line: OutputLine) -> None:
        """Take a line; it never blocks."""
        if self._left > 0:
            self._left -= 1
            self._lines.append(line)

    def __enter__(self) -> StoredOutput:
        self._thread = start_thread(self._run, "output of a task")
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(_PAUSE_S):
                self._store()
            self._store()
        finally:
            self._engine.close_thread()

    def _store(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if not lines:
            return
        try:
            self._output.add(self._seq, lines)
        except AckbusError as error:
            _log.warning("%s lines of output were not stored: %s", len(lines), error)
