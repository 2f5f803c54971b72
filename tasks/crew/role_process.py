"""One role of a crew: its process, started again when it ends, with longer and longer pauses."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from ...schema.processes import start_thread
from ...workers.commands.raw_contract import EX_CONFIG, how_it_exited
from ...workers.processes.run_process import run_process
from ..programs.bounded_attempts import AttemptRule
from ..programs.output_lines import OutputLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Thread
    from typing import Any, Literal

    from ...workers.processes.run_process import ProcessEnd
    from ...workers.processes.stop_switch import StopSwitch
    from ...workers.processes.supervisors import Supervisors
    from ..programs.output_lines import OutputLine
    from .crew_file import Role
    from .role_logs import RoleLog

    #: `spare`: not started yet. `waiting`: it ended, and starts again. `failed`: it can't run as it
    #: is configured, and is not started again.
    RoleStatus = Literal["spare", "running", "waiting", "failed", "stopped"]

#: The pauses before a role starts again: 1 s, doubling, up to a minute.
RESTARTS = AttemptRule(1_000_000, 1_000)

#: A role that has run so long begins with the first pause again, in seconds.
STABLE_S = 60.0

#: The exit statuses with which a role says that it can't run as it is told to: wrong usage, and
#: wrong configuration. To start it again would change nothing.
_USELESS = (2, EX_CONFIG)


@dataclass(frozen=True, slots=True)
class RoleState:
    """The state of a role.

    Attributes:
        name: of the role.
        status: what it is at.
        starts: how often it was started.
        since_ms: since when it has this status, in epoch milliseconds.
        until_ms: when it starts again; None unless it waits.
        ended: how its process ended last; None before that.
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
        """Start it no more; its process is ended by the switch."""
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
        said = "stopped" if end.stopped else end.start_error or how_it_exited(end)
        self._log.note(f"ended: {said}")
        self.state = replace(self.state, ended=said)
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
