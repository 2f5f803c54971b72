"""A crew: the roles of tasks as processes, kept running by one that looks after them.

The roles end with this process, also when it is killed: what nobody looks after doesn't go on. Each
of them may end at any moment without harm, so the next crew goes on where this one was.
"""

from __future__ import annotations

import os
import select

from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.errors import AckbusError
from ...subscribers.queues.queue import Queue
from ...workers.processes.stop_switch import StopSwitch
from ...workers.processes.supervisors import Supervisors
from ..steps.messages import JOBS
from .crew_lock import CrewLock
from .role_logs import RoleLog
from .role_process import RoleProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...bus.presence.heartbeats import Heartbeat
    from .crew_file import CrewFile
    from .role_process import RoleState

#: The agent whose heart beats for a crew.
AGENT = "crew"

#: The status by which a planner says that it wants another worker.
WANTS_WORKER = "wants-worker"

#: How long the roles have between SIGTERM and SIGKILL, in seconds.
STOP_GRACE_S = 10.0

#: How often a crew looks whether another worker is needed, and tells its state, in seconds.
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
        bus: Bus,
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
        return [each.state for each in self._roles]

    def run(self, look: Callable[[], None] = lambda: None) -> None:
        """Run the roles until `stop` is called; blocks until nothing of them is left.

        Args:
            look: called about each second.
        """
        with self._supervisors, self._bus.heart(AGENT) as heart:
            heart.update("working", task=f"{len(self._roles)} roles of {self._file.path}"[:500])
            try:
                for each in self._roles:
                    if not each.role.is_spare:
                        each.start()
                while not self._stop.is_thrown:
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
        for each in self._roles:
            each.end_pause()
        if not self._stop.is_thrown:
            self._stop.stop(STOP_GRACE_S)
        for each in self._roles:
            each.join()

    def _tell(self) -> None:
        self._lock.tell(
            {
                "file": self._file.path,
                "folder": self._file.folder,
                "roles": [each.state.record() for each in self._roles],
            }
        )

    def _start_spare_if_wanted(self) -> None:
        spares = [each for each in self._roles if each.state.status == "spare"]
        if spares and self._is_worker_wanted():
            spares[0].start()

    def _is_worker_wanted(self) -> bool:
        """Whether a planner waits for a worker, or jobs wait and no worker of the crew is idle."""
        beats = self._bus.heartbeats.list()
        if any(beat.status == WANTS_WORKER and beat.liveness == "alive" for beat in beats):
            return True
        by_agent = {beat.agent: beat for beat in beats}
        if any(_has_time(each.state, by_agent.get(each.role.name)) for each in self._workers):
            return False
        try:
            return Queue.open(self._bus, JOBS).stats().waiting > 0
        except AckbusError:  # the queue is not there yet, or the bus is busy
            return False

    @property
    def _workers(self) -> list[RoleProcess]:
        return [each for each in self._roles if each.role.is_worker]


def _has_time(worker: RoleState, beat: Heartbeat | None) -> bool:
    """Whether a worker has nothing to do, or is about to look for it."""
    if worker.status != "running":
        return False
    is_new = beat is None or beat.ts_ms < worker.since_ms
    return is_new or (beat is not None and beat.status == "idle")
