"""A crew: the roles of tasks as processes, kept running by one that has the crew's lock.

The roles end with this process, also when it is killed, so that none goes on unsupervised. Each may
end at any moment without harm; the next crew continues where this one stopped.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from ..schema.bounded_read import read_at_most
from ..schema.descriptors import write_all
from ..schema.directory.file_lock import FileLock, is_locked
from ..schema.directory.layout import BUS_DIR_VARIABLE
from ..schema.directory.lock_holders import holders, kernel_lists_locks, signal_holder
from ..schema.errors import AckbusError, NotFound, Refused, TimedOut
from ..schema.message.times import format_ts
from ..schema.process_table import boot_id
from ..schema.processes import has_run_for, start_thread
from ..subscribers.queues.queue import Queue
from ..workers.processes.own_child import StopSwitch
from ..workers.processes.run_process import run_process
from ..workers.processes.supervisors import Supervisors
from ..workers.raw_contract import EX_CONFIG, how_it_exited
from .agent_program import AttemptRule, OutputLines
from .steps.messages import JOBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Thread
    from typing import Any, Literal

    from ..bus.heartbeats import Heartbeat
    from ..bus.local_bus import LocalBus
    from ..schema.directory.folder import Folder
    from ..workers.processes.run_process import ProcessEnd
    from .agent_program import OutputLine
    from .crew_file import CrewFile, Role

    #: `spare`: not started yet. `waiting`: it ended, and starts again. `failed`: it can't run as it
    #: is configured, and is not started again.
    RoleStatus = Literal["spare", "running", "waiting", "failed", "stopped"]

# The lock of a crew, which the kernel frees with its process, and the file of its state.

#: The lock, and the state, in the bus directory.
LOCK, STATE = "crew.lock", "crew.json"

#: Seconds between two looks whether a crew has gone.
_NAP_S = 0.02


class CrewRuns(Refused):
    """A crew of this bus runs already."""


class NoCrew(NotFound):
    """No crew of this bus runs."""


class CrewLock:
    """The right to run the crew of a bus, from `acquire` to `close`."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            CrewRuns: another process has it.
        """
        lock = FileLock(self._bus.layout.files.path_of(LOCK))
        if not lock.try_acquire_past_checks():
            lock.close()
            who = running_pid(self._bus)
            whose = f": process {who}" if who else ""
            raise CrewRuns(
                f"a crew of this bus runs already{whose}; see 'bus crew status', or end it with"
                " 'bus crew stop'"
            )
        self._lock = lock

    def tell(self, state: dict[str, Any]) -> None:
        """Write the whole state of the crew to its file."""
        who = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "boot": boot_id(),
            "at_ms": self._bus.now_ms(),
        }
        files, fresh = self._bus.layout.files, f"{STATE}.new"
        with files.new(fresh) as file:
            file.write(orjson.dumps(who | state))
        files.rename(fresh, STATE)

    def close(self) -> None:
        """Free the lock; more than once does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> CrewLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def saved_state(bus: LocalBus) -> dict[str, Any] | None:
    """Return the state that the last crew has written; None if none ever ran."""
    with suppress(FileNotFoundError, orjson.JSONDecodeError), bus.layout.files.read(STATE) as file:
        state = orjson.loads(read_at_most(file, STATE))
        return state if isinstance(state, dict) else None
    return None


def is_running(bus: LocalBus) -> bool:
    """Whether a crew holds the lock of a bus: the kernel knows, whatever a file says."""
    try:
        with bus.layout.files.read(LOCK) as file:
            return is_locked(file)
    except OSError:
        return False


def running_pid(bus: LocalBus) -> int | None:
    """Return the number of the process that runs the crew, as it is seen from here.

    The kernel knows the holder of the lock. If the kernel does not tell, the number in the state
    counts, if it is of this host and this boot, and the process is as old as the state: numbers are
    reused.
    """
    if not is_running(bus):
        return None
    if kernel_lists_locks():
        return next(
            (holder.pid for holder in holders(bus.layout.files.path_of(LOCK)) if holder.pid), None
        )
    state = saved_state(bus) or {}
    pid, age_s = state.get("pid"), (bus.now_ms() - state.get("at_ms", 0)) / 1000
    is_here = (state.get("host"), state.get("boot")) == (socket.gethostname(), boot_id())
    return pid if is_here and isinstance(pid, int) and has_run_for(pid, age_s) else None


def stop_running(bus: LocalBus, timeout_s: float) -> int:
    """Tell the crew of a bus to stop, wait until it has, and return the number of its process.

    Raises:
        NoCrew: no crew runs.
        Refused: the crew can't be signalled from here.
        TimedOut: the crew has not stopped in time.
    """
    if not is_running(bus):
        raise NoCrew("no crew of this bus runs")
    try:
        pid = signal_holder(bus.layout.files.path_of(LOCK), signal.SIGTERM, "the crew")
    except Refused as error:
        if is_running(bus):
            raise
        raise NoCrew("no crew of this bus runs") from error
    deadline = time.monotonic() + timeout_s
    while is_running(bus):
        if time.monotonic() > deadline:
            raise TimedOut(f"process {pid} has not stopped its crew within {timeout_s:g} s")
        time.sleep(_NAP_S)
    return pid


# The logs of a crew: a file for each role in the bus directory, with older ones beside it.

#: The folder of the logs, in the bus directory.
LOGS = "logs"

#: A log that would grow beyond so many bytes begins again; and how many older logs are kept.
MAX_BYTES, KEPT = 4 * 1024 * 1024, 2


class RoleLog:
    """The log of one role; it is made with its first line.

    Args:
        bus: the bus.
        name: of the role.
        max_bytes: the size beyond which it begins again.
    """

    def __init__(self, bus: LocalBus, name: str, max_bytes: int = MAX_BYTES) -> None:
        self._folder: Folder = bus.layout.files.folder(LOGS)
        self._now_ms = bus.now_ms
        self._name = f"{name}.log"
        self._max_bytes = max_bytes
        self._fd = -1
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._folder.path_of(self._name)

    def write(self, data: bytes) -> None:
        """Add what the role printed, as it is."""
        with self._lock:
            if self._fd < 0:
                self._open()
            size = os.fstat(self._fd).st_size
            if size and size + len(data) > self._max_bytes:
                self._rotate()
            write_all(self._fd, data)

    def note(self, text: str) -> None:
        """Add a line of the crew itself, with the time."""
        self.write(f"-- {format_ts(self._now_ms())} {text}\n".encode(errors="replace"))

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> None:
        self._folder.make()
        self._fd = self._folder.change(self._name, os.O_APPEND)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _rotate(self) -> None:
        self._close()
        names = [self._name, *(f"{self._name}.{number}" for number in range(1, KEPT + 1))]
        for older, newer in reversed(list(zip(names[1:], names[:-1], strict=True))):
            if self._folder.has(newer):
                self._folder.rename(newer, older)
        self._open()


# One role of a crew: its process, started again when it ends, with longer and longer pauses.

#: The pauses before a role starts again: 1 s, doubling, up to a minute.
RESTARTS = AttemptRule(1_000_000, 1_000)

#: A role that has run so long begins with the first pause again, in seconds.
STABLE_S = 60.0

#: The exit statuses of wrong usage and of wrong configuration: to start the role again would not
#: help.
_USELESS = (2, EX_CONFIG)


@dataclass(frozen=True, slots=True)
class RoleState:
    """The state of a role.

    Attributes:
        name: of the role.
        status: the present status.
        starts: how often it was started.
        since_ms: since when it has this status, in epoch milliseconds.
        until_ms: when it starts again; None unless it waits.
        ended: how its process ended last; None: it has not ended yet.
        last: the last line that it printed.
    """

    name: str
    status: RoleStatus
    starts: int
    since_ms: int
    until_ms: int | None = None
    ended: str | None = None
    last: str = ""

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


class RoleProcess:
    """Keeps one role running, in a thread of its own.

    Args:
        role: the role.
        folder, environment: where it runs, and all its variables.
        log: takes what it prints.
        stop: ends it.
        supervisors: run it, so that it ends with this process, also after a kill -9.
        now_ms: returns the time in epoch milliseconds.
        changed: called when its state has changed.
    """

    def __init__(
        self,
        role: Role,
        *,
        folder: str,
        environment: Mapping[str, str],
        log: RoleLog,
        stop: StopSwitch,
        supervisors: Supervisors,
        now_ms: Callable[[], int],
        changed: Callable[[RoleState], None],
    ) -> None:
        self.role = role
        self.state = RoleState(role.name, "spare", 0, now_ms())
        self._folder, self._environment = folder, environment
        self._log, self._stop, self._supervisors = log, stop, supervisors
        self._now_ms, self._changed = now_ms, changed
        self._over = threading.Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the role; once."""
        assert self._thread is None
        self.state = replace(self.state, status="running", since_ms=self._now_ms())
        self._thread = start_thread(self._run, f"role {self.role.name}")

    def end_pause(self) -> None:
        """End a pause, and start the role no more; the switch ends its process."""
        self._over.set()

    def join(self) -> None:
        """Wait until nothing of it is left."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        failures = 0
        try:
            while not self._over.is_set():
                end = self._run_once()
                if self._over.is_set() or end.stopped:
                    break
                if end.exit_code in _USELESS or (end.start_error and not end.may_start_later):
                    self._set(status="failed")
                    self._log.note("it is not started again: it can't run as it is configured")
                    return
                failures = 1 if end.run_s >= STABLE_S else failures + 1
                self._pause(RESTARTS.pause_after(failures))
            self._set(status="stopped", until_ms=None)
        finally:
            self._log.close()

    def _run_once(self) -> ProcessEnd:
        self._set(status="running", starts=self.state.starts + 1, until_ms=None)
        self._log.note(f"started, for the {_nth(self.state.starts)} time")
        lines = OutputLines(self._note_line, time.monotonic)

        def printed(stream: str, data: bytes) -> None:
            self._log.write(data)
            lines.add(stream, data)

        end = run_process(
            self.role.argv,
            b"",
            env=self._environment,
            cwd=self._folder,
            timeout_s=None,
            max_stdout_bytes=None,
            max_stderr_bytes=None,
            stop=self._stop,
            supervisors=self._supervisors,
            output=printed,
        )
        ending = "stopped" if end.stopped else end.start_error or how_it_exited(end)
        self._log.note(f"ended: {ending}")
        self.state = replace(self.state, ended=ending)
        return end

    def _pause(self, pause_ms: int) -> None:
        self._set(status="waiting", until_ms=self._now_ms() + pause_ms)
        self._over.wait(pause_ms / 1000)

    def _note_line(self, line: OutputLine) -> None:
        if line.text.strip():
            self.state = replace(self.state, last=line.text.strip()[:500])

    def _set(self, **changed: Any) -> None:
        self.state = replace(self.state, since_ms=self._now_ms(), **changed)
        self._changed(self.state)


def _nth(count: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{count}{'th' if 10 < count % 100 < 14 else ends.get(count % 10, 'th')}"


#: The agent whose heart beats for a crew.
AGENT = "crew"

#: The status by which a planner says that it wants another worker.
WANTS_WORKER = "wants-worker"

#: How long the roles have between SIGTERM and SIGKILL, in seconds.
STOP_GRACE_S = 10.0

#: How often a crew looks whether another worker is needed, and writes its state, in seconds.
_LOOK_S = 1.0


class Crew:
    """The roles of a file, running.

    Args:
        bus: an open bus.
        file: the crew.
        lock: its lock, which is held.
        changed: called with each role whose status has changed, from several threads.
    """

    def __init__(
        self,
        bus: LocalBus,
        file: CrewFile,
        lock: CrewLock,
        changed: Callable[[RoleState], None] = lambda state: None,
    ) -> None:
        self._bus, self._file, self._lock = bus, file, lock
        self._stop = StopSwitch()
        self._supervisors = Supervisors()
        environment = {**os.environ, **file.environment, BUS_DIR_VARIABLE: bus.layout.directory}
        self._roles = [
            RoleProcess(
                role,
                folder=file.folder,
                environment=environment,
                log=RoleLog(bus, role.name),
                stop=self._stop,
                supervisors=self._supervisors,
                now_ms=bus.now_ms,
                changed=changed,
            )
            for role in file.roles
        ]

    def states(self) -> list[RoleState]:
        """Return the states of its roles, in the order of the file."""
        return [process.state for process in self._roles]

    def run(self, look: Callable[[], None] = lambda: None) -> None:
        """Run the roles until `stop` is called; blocks until nothing of them is left.

        Args:
            look: called about each second.
        """
        with self._supervisors, self._bus.heart(AGENT) as heart:
            heart.update("working", task=f"{len(self._roles)} roles of {self._file.path}"[:500])
            try:
                for process in self._roles:
                    if not process.role.is_spare:
                        process.start()
                while not self._stop.is_set:
                    self._start_spare_if_wanted()
                    self._tell()
                    look()
                    select.select([self._stop], [], [], _LOOK_S)
            finally:
                self._end()
                self._tell()

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the roles: SIGTERM, and SIGKILL after `grace_s`. Safe in a signal handler.

        A second call with a shorter time shortens the time that is left.
        """
        self._stop.stop(grace_s)

    def _end(self) -> None:
        for process in self._roles:
            process.end_pause()
        if not self._stop.is_set:
            self._stop.stop(STOP_GRACE_S)
        for process in self._roles:
            process.join()

    def _tell(self) -> None:
        self._lock.tell(
            {
                "file": self._file.path,
                "folder": self._file.folder,
                "roles": [process.state.record() for process in self._roles],
            }
        )

    def _start_spare_if_wanted(self) -> None:
        spares = [process for process in self._roles if process.state.status == "spare"]
        if spares and self._is_worker_wanted():
            spares[0].start()

    def _is_worker_wanted(self) -> bool:
        """Whether a planner waits for a worker, or jobs wait and no worker of the crew is idle."""
        beats = self._bus.heartbeats.list()
        if any(beat.status == WANTS_WORKER and beat.liveness == "alive" for beat in beats):
            return True
        by_agent = {beat.agent: beat for beat in beats}
        if any(
            _has_time(process.state, by_agent.get(process.role.name)) for process in self._workers
        ):
            return False
        try:
            return Queue.open(self._bus, JOBS).stats().waiting > 0
        except AckbusError:  # the queue is not there yet, or the bus is busy
            return False

    @property
    def _workers(self) -> list[RoleProcess]:
        return [process for process in self._roles if process.role.is_worker]


def _has_time(worker: RoleState, beat: Heartbeat | None) -> bool:
    """Whether a worker has nothing to do, or is about to look for it."""
    if worker.status != "running":
        return False
    is_new = beat is None or beat.ts_ms < worker.since_ms
    return is_new or (beat is not None and beat.status == "idle")
