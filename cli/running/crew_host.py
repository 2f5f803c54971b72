"""Running a crew: here, until signals end it, or in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import nullcontext

from ...schema.errors import AckbusError
from ...schema.stop_limit import obey
from ...tasks.crew.crew import Crew
from ...tasks.crew.crew_lock import CrewLock, running_pid, told_state
from ...tasks.crew.role_logs import LOGS
from ..logs import show_logs
from ..own_path import own_path
from ..show import output
from . import crew_view as view
from .repeated_view import in_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...bus.bus import Bus
    from ...tasks.crew.crew_file import CrewFile
    from ...tasks.crew.role_process import RoleState

#: How long a crew in the background may take to begin, in seconds.
_BEGINS_WITHIN_S = 30.0

#: The name of its own log, beside those of its roles.
_OWN_LOG = "crew.log"

#: How much of the last words of a crew is shown, in bytes.
_MAX_SAID_BYTES = 64 * 1024

_NAP_S = 0.02


def run_here(bus: Bus, file: CrewFile) -> int:
    """Run a crew until SIGINT, SIGTERM or SIGHUP ends it; a second one kills what is left.

    Raises:
        CrewRuns: a crew of this bus runs already.
    """
    show_logs()
    with CrewLock(bus) as lock:
        lock.acquire()
        is_seen = output.is_terminal() and os.environ.get("TERM") != "dumb"
        crew = Crew(bus, file, lock, (lambda state: None) if is_seen else _print)
        told: list[int] = []

        def stop(number: int, frame: FrameType | None) -> None:
            crew.stop(0) if told else crew.stop()
            told.append(number)

        obey(stop, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, keeps_ignored=True)
        output.remark(f"{len(file.roles)} roles of {file.path}; Ctrl-C ends them")
        with in_place(view.table) if is_seen else nullcontext() as draw:
            crew.run((lambda: draw(sights(bus, crew.states()))) if draw else lambda: None)
    return 0


def start_behind(bus: Bus, path: str) -> int:
    """Start a crew as a process of its own, and return its number as soon as it runs.

    Raises:
        AckbusError: it has ended instead, for the reason that it says.
    """
    folder = bus.layout.files.folder(LOGS)
    folder.make()
    log = folder.change(_OWN_LOG, os.O_APPEND)
    begins = os.fstat(log).st_size
    try:
        process = subprocess.Popen(
            [own_path(), "crew", "start", path, "--dir", bus.layout.directory],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            with folder.read(_OWN_LOG) as file:
                file.seek(begins)
                said = file.read(_MAX_SAID_BYTES).decode(errors="replace").strip()
            raise AckbusError(said.removeprefix("bus: ") or "the crew ended at once")
        state = told_state(bus) or {}
        if running_pid(bus) is not None and state.get("pid") == process.pid:
            return process.pid
        time.sleep(_NAP_S)
    raise AckbusError(f"the crew has not begun; see {folder.path_of(_OWN_LOG)}")


def sights(bus: Bus, states: list[RoleState]) -> list[view.RoleSight]:
    """Return the roles of a crew as they are shown."""
    now_ms = bus.now_ms()
    return [
        view.RoleSight(state.record(), bus.heartbeats.get(state.name), now_ms) for state in states
    ]


def _print(state: RoleState) -> None:
    told = f": {state.ended}" if state.status != "running" and state.ended else ""
    output.note(f"{state.name}: {state.status}{told}")
