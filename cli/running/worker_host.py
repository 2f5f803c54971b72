"""Running a worker at a terminal, and `bus heartbeat --every` beside another program."""

from __future__ import annotations

import os
import select
import shutil
import signal

from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, InvalidInput, NotFound
from ...schema.message.times import age, format_ts
from ...schema.process_table import is_running, process
from ...schema.stop_limit import lift_limit, obey
from ...subscribers.jobs.jobs import Jobs
from ..show.output import Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...subscribers.queues.queue import Queue
    from ...workers.json_contract import JsonCommand
    from ...workers.raw_contract import RawCommand
    from ...workers.worker import Worker

# `bus heartbeat --every`: beats for an agent in another language, until its process ends.

#: The longest time between two beats, in seconds: with a longer one the agent would look dead.
MAX_INTERVAL_S = 30.0

#: How often a process is looked for where the kernel can't tell that it ended, in seconds.
LOOK_EVERY_S = 1.0

_STOPPED = "stopped"


class Sidecar:
    """Beats for an agent until a process ends, or SIGTERM or SIGINT comes.

    Args:
        output: where it reports beats that fail.
        bus: an open bus.
        agent: the agent.
        pid: the agent's process.
        every_s: the time between two beats, in seconds.

    Raises:
        InvalidInput: `every_s` is out of range.
        NotFound: there is no such process.
    """

    def __init__(
        self, output: Output, bus: LocalBus, agent: str, pid: int, *, every_s: float
    ) -> None:
        if not 0 < every_s < MAX_INTERVAL_S:
            raise InvalidInput(f"--every must be more than 0 and less than {MAX_INTERVAL_S:g} s")
        self._output = output
        self._bus, self._agent, self._pid = bus, agent, pid
        self._process = None if (entry := process(pid)) is None else str(entry)
        self._every_s = every_s
        self._process_fd = _watch(pid)
        self._signal_reader, self._signal_writer = os.pipe()

    def run(self, status: str, *, task: str | None, progress: float | None) -> None:
        """Beat until the end, then once more with `stopped`; blocks."""
        obey(lambda *_: os.write(self._signal_writer, b"!"), signal.SIGINT, signal.SIGTERM)
        self._beat(status, task=task, progress=progress)
        while not self._has_ended(self._every_s):
            try:
                self._beat(status, task=task, progress=progress)
            except AckbusError as error:
                self._output.note(f"a beat was not written: {error}")  # the next one may be
        self._beat(_STOPPED)

    def _beat(self, status: str, *, task: str | None = None, progress: float | None = None) -> None:
        self._bus.heartbeats.beat(
            self._agent, status, task=task, progress=progress, pid=self._pid, process=self._process
        )

    def _has_ended(self, within_s: float) -> bool:
        """Wait for the end, or for the time of the next beat."""
        waiter = select.poll()
        waiter.register(self._signal_reader, select.POLLIN)
        if self._process_fd is not None:
            waiter.register(self._process_fd, select.POLLIN)
            return bool(waiter.poll(within_s * 1000))
        while within_s > 0:
            if waiter.poll(min(within_s, LOOK_EVERY_S) * 1000) or not is_running(self._pid):
                return True
            within_s -= LOOK_EVERY_S
        return False


def _watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise NotFound(f"there is no process {pid}") from error
    except (AttributeError, OSError):
        if not is_running(pid):
            raise NotFound(f"there is no process {pid}") from None
        return None


#: The signals that stop a worker after its running jobs; a second one, or SIGQUIT, at once.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class WorkerHost:
    """Runs a worker until it is done, or signals stop it."""

    def __init__(self, output: Output, worker: Worker) -> None:
        self._output = output
        self._worker = worker
        self._is_stopping = False
        self._ended_by: int | None = None  # the signal that ended what runs

    def run(self, work: RawCommand | JsonCommand, *, once: bool, drain: bool) -> int:
        """Work, and return the exit code: 0, or 128 and the signal that ended it at once."""
        self._output.show_logs()
        obey(self._stop, *_SIGNALS, keeps_ignored=True)
        self._worker.run_work(work, once=once, drain=drain)
        if drain and not self._is_stopping:
            note_left(self._output, self._worker.queue)
        return 0 if self._ended_by is None else 128 + self._ended_by

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping or number == signal.SIGQUIT:
            self._ended_by = self._ended_by or number
            self._worker.stop_now()
        else:
            self._is_stopping = True
            if self._worker.is_working:
                lift_limit()  # what runs may take as long as it does
            self._worker.stop()
            self._output.remark(
                "ending when what runs has ended; a second Ctrl-C or SIGTERM ends that now"
            )


def note_left(output: Output, queue: Queue) -> None:
    """Note what a worker that drains its queue leaves there, and when the next of it is due."""
    stats = queue.stats(window_s=1)
    parts = []
    if stats.waiting:
        why = ", as it is paused" if queue.info.paused_at_ms is not None else ""
        parts.append(f"{counted(stats.waiting, 'job')} waiting{why}")
    if stats.delayed:
        due_ms = Jobs.of(queue.bus).at_hand_of([queue.info.id])[0].next_due_ms
        left_s = max(0.0, (due_ms - stats.at_ms) / 1000) if due_ms is not None else 0.0
        when = "" if due_ms is None else f", the next at {format_ts(due_ms)}, in {age(left_s)}"
        jobs = counted(stats.delayed, "job")
        parts.append(f"{jobs} will be due for another attempt, or for the first{when}")
    if stats.running:
        parts.append(f"{counted(stats.running, 'job')} at other workers")
    if stats.held:
        parts.append(f"{counted(stats.held, 'job')} behind others with the same dedupe key")
    if parts:
        hint = f"see 'bus job list --queue {queue.name}'"
        output.note(f"queue {queue.name!r} is not empty: {'; '.join(parts)}; {hint}")


def check_command(name: str) -> None:
    """Refuse a missing command, on which each job would lose an attempt.

    Raises:
        InvalidInput: it can't be found, or is not executable.
    """
    if shutil.which(name) is not None:
        return
    if os.sep not in name:
        raise InvalidInput(f"there is no command {name!a} on the PATH; give its path, like ./cmd")
    if os.path.isfile(name):
        raise InvalidInput(f"{name!a} is not executable; make it so with chmod +x")
    raise InvalidInput(f"there is no command {name!a}; give the path of a program that is there")
