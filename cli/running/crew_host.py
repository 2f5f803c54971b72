"""Running a crew: here, until signals end it, or in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from ...schema.errors import AckbusError, InvalidInput
from ...schema.message.times import age
from ...schema.stop_limit import obey
from ...tasks.crew import LOGS, Crew, CrewLock, running_pid, saved_state
from .. import arguments
from ..own_session import own_path
from ..show.output import Output, cells_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from typing import Any, NoReturn, TypeVar

    from ...bus.heartbeats import Heartbeat
    from ...bus.local_bus import LocalBus
    from ...tasks.crew import RoleState
    from ...tasks.crew_file import CrewFile

    #: Headings, and rows under them.
    Table = tuple[Sequence[str], Sequence[Sequence[object]]]

    #: The type of the watched things, such as queues.
    Watched = TypeVar("Watched")

# `--watch`: a repeated view, in place on a terminal, line by line in a pipe.


def watch(
    output: Output,
    look: Callable[[], list[Watched]],
    every: str,
    *,
    table: Callable[[list[Watched]], Table],
    lines: Callable[[Output, list[Watched]], None],
) -> NoReturn:
    """Look, show the result, wait, and repeat until Ctrl-C.

    Args:
        look: returns the things to show.
        every: the pause, as --every gave it.
        table: makes the table for a terminal.
        lines: prints lines where the output is no terminal.
    """
    every_s = arguments.seconds(every, "--every")
    if not every_s:
        raise InvalidInput("--every must be more than 0")
    with in_place(table) if output.is_terminal() else _in_lines(output, lines) as show:
        while True:
            show(look())
            time.sleep(every_s)


@contextmanager
def in_place(
    table: Callable[[list[Watched]], Table],
) -> Iterator[Callable[[list[Watched]], None]]:
    """Yield a function that draws a table over the one before it, on a terminal."""
    from ..show.terminal import table_in_place

    with table_in_place() as draw:

        def show(watched: list[Watched]) -> None:
            headings, rows = table(watched)
            draw(headings, cells_of(rows))

        yield show


@contextmanager
def _in_lines(
    output: Output,
    lines: Callable[[Output, list[Watched]], None],
) -> Iterator[Callable[[list[Watched]], None]]:
    def show(watched: list[Watched]) -> None:
        lines(output, watched)
        output.flush()  # the reader waits for the next line

    yield show


# The roles of a crew, as `bus crew` shows them.

HEADINGS = ("ROLE", "STATE", "FOR", "STARTS", "AGENT", "TASK", "LAST")


@dataclass(frozen=True, slots=True)
class RoleView:
    """A role of a crew, and the last heartbeat of the agent of its name.

    Attributes:
        role: the record of its state.
        beat: the heartbeat, or None.
        now_ms: when it was looked at, in epoch milliseconds.
    """

    role: dict[str, Any]
    beat: Heartbeat | None
    now_ms: int

    def row(self) -> tuple[object, ...]:
        """Return it as a row of the table."""
        role, beat = self.role, self.beat
        state = role["status"]
        if state == "waiting" and role["until_ms"] is not None:
            left_s = max(0.0, (role["until_ms"] - self.now_ms) / 1000)
            state = f"starts in {left_s:.0f} s"
        last = role["last"] or role["ended"]
        if state not in ("running", "spare", "stopped"):
            last = role["ended"] if not role["last"] else f"{role['ended']}: {role['last']}"
        status = (
            None if beat is None else beat.status if beat.liveness == "alive" else beat.liveness
        )
        return (
            *(role["name"], state, age(max(0, self.now_ms - role["since_ms"]) / 1000)),
            *(role["starts"], status, None if beat is None else beat.task, last),
        )

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        beat = self.beat
        beat_fields = {
            "liveness": None if beat is None else beat.liveness.value,
            "agent_status": None if beat is None else beat.status,
            "task": None if beat is None else beat.task,
        }
        return self.role | beat_fields


def table(views: Sequence[RoleView]) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Return the table of roles."""
    return HEADINGS, [view.row() for view in views]


def print_lines(output: Output, views: Sequence[RoleView]) -> None:
    """Print the roles, each as a line of JSON or as a row."""
    output.results(
        [view.record() for view in views],
        [view.row() for view in views],
        HEADINGS,
    )


#: How long a crew in the background may take to begin, in seconds.
_BEGINS_WITHIN_S = 30.0

#: The name of its own log, beside those of its roles.
_OWN_LOG = "crew.log"

#: How much of the output of a failed crew is shown, in bytes.
_MAX_SHOWN_BYTES = 64 * 1024

_NAP_S = 0.02


def run_here(output: Output, bus: LocalBus, file: CrewFile) -> int:
    """Run a crew until SIGINT, SIGTERM or SIGHUP ends it; a second one kills what is left.

    Raises:
        CrewRuns: a crew of this bus runs already.
    """
    output.show_logs()
    with CrewLock(bus) as lock:
        lock.acquire()
        is_seen = output.is_terminal() and os.environ.get("TERM") != "dumb"
        crew = Crew(bus, file, lock, (lambda state: None) if is_seen else partial(_print, output))
        signals: list[int] = []

        def stop(number: int, frame: FrameType | None) -> None:
            crew.stop(0) if signals else crew.stop()
            signals.append(number)

        obey(stop, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, keeps_ignored=True)
        output.remark(f"{len(file.roles)} roles of {file.path}; Ctrl-C ends them")
        with in_place(table) if is_seen else nullcontext() as draw:
            crew.run((lambda: draw(role_views(bus, crew.states()))) if draw else lambda: None)
    return 0


def start_behind(bus: LocalBus, path: str) -> int:
    """Start a crew as a process of its own, and return the process id as soon as it runs.

    Raises:
        AckbusError: it ended at once; the error has its output.
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
                text = file.read(_MAX_SHOWN_BYTES).decode(errors="replace").strip()
            raise AckbusError(text.removeprefix("bus: ") or "the crew ended at once")
        state = saved_state(bus) or {}
        if running_pid(bus) is not None and state.get("pid") == process.pid:
            return process.pid
        time.sleep(_NAP_S)
    raise AckbusError(f"the crew has not begun; see {folder.path_of(_OWN_LOG)}")


def role_views(bus: LocalBus, states: list[RoleState]) -> list[RoleView]:
    """Return the roles of a crew as they are shown."""
    now_ms = bus.now_ms()
    return [RoleView(state.record(), bus.heartbeats.get(state.name), now_ms) for state in states]


def _print(output: Output, state: RoleState) -> None:
    reason = f": {state.ended}" if state.status != "running" and state.ended else ""
    output.note(f"{state.name}: {state.status}{reason}")
