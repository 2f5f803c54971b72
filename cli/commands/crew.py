"""The roles of tasks as processes: crew start, stop, status."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer

from ...schema.directory.ownership import is_safe
from ...schema.errors import NotFound, Refused
from ...tasks.crew.crew_file import CrewFile, read_crew
from ...tasks.crew.crew_layers import read_layers
from ...tasks.crew.crew_lock import is_running, running_pid, stop_running, told_state
from .. import arguments
from ..definition import Commands, optional_word
from ..options.common import HERE, Place
from ..own_path import own_path
from ..running import crew_view as view
from ..running.crew_host import run_here, start_behind
from ..running.repeated_view import watch as go_on_watching
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus

commands = Commands()
#: The file that is found in the working directory where none is named.
_FOUND = "crew.yaml"

crew = commands.group("crew", help="Crew: planner, workers and integrator, kept running.")

File = Annotated[
    str | None,
    optional_word(
        "FILE", f"The crew, in YAML: planner, workers, integrator, … Default: {_FOUND}, if trusted."
    ),
]


@crew.command("start", example="bus crew start crew.yaml --detach")
def start(
    file: File = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return when it runs.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file; start nothing.")
    ] = False,
    place: Place = HERE,
) -> int:
    """Run the roles that a file names, and keep them running.

    A role that ends starts again, after 1 s to 1 min; but not one that ends with code 2 or 78. What
    a role prints is in the bus directory, in logs/ROLE.log. The roles end with the crew: SIGTERM,
    and SIGKILL after 10 s. With `max` above `count`, further workers start while jobs wait and no
    worker is idle. A terminal shows the roles. Over FILE go crew.PROFILE.yaml (of
    BUS_CREW_PROFILE), crew.local.yaml, and variables as BUS_CREW_WORKERS_COUNT. A crew.yaml that is
    only found in the working directory starts nothing until 'bus trust add' names that. Exit code 3
    then, and when a crew of this bus runs; 78 when a file is wrong.
    """
    found = _read(file)
    if check:
        roles = [{"name": role.name, "argv": list(role.argv)} for role in found.roles]
        output.result({"file": found.path, "roles": roles}, f"{found.path}: {len(roles)} roles")
        return 0
    with place.open() as bus:
        if file is None:
            _refuse_found(found.path)
        if not detach:
            return run_here(bus, found)
        pid = start_behind(bus, found.path)
    output.result({"pid": pid}, f"the crew runs as process {pid}; see 'bus crew status'")
    return 0


@crew.command("stop", example="bus crew stop")
def stop(
    wait: Annotated[
        str, typer.Option(metavar="D", help="How long to wait until nothing of it is left.")
    ] = "30s",
    place: Place = HERE,
) -> int:
    """End the crew, and wait until nothing of it is left.

    Exit code 4 when none runs, 5 when it has not ended in time.
    """
    wait_s = arguments.seconds(wait, "--wait")
    with place.open() as bus:
        pid = stop_running(bus, wait_s)
    output.result({"pid": pid, "stopped": True}, f"process {pid} has ended, and its roles")
    return 0


@crew.command("status", example="bus crew status --watch")
def status(
    watch: Annotated[bool, typer.Option("--watch", help="Repeat, until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="D", help="With --watch: how often.")] = "1s",
    place: Place = HERE,
) -> int:
    """Print the roles of the crew, and what the agent of each is at.

    Exit code 4 when no crew runs.
    """
    with place.open() as bus:
        if watch:
            go_on_watching(lambda: _look(bus), every, table=view.table, lines=view.print_lines)
        view.print_lines(_look(bus))
        pid = running_pid(bus)
    output.detail(f"process {pid}")
    return 0


def _look(bus: Bus) -> list[view.RoleSight]:
    if not is_running(bus):
        raise NotFound("no crew of this bus runs; start one with 'bus crew start'")
    now_ms = bus.now_ms()
    roles = (told_state(bus) or {}).get("roles", [])
    return [view.RoleSight(role, bus.heartbeats.get(role["name"]), now_ms) for role in roles]


def _read(path: str | None) -> CrewFile:
    layers = read_layers(os.path.abspath(path or _FOUND), os.environ, is_named=path is not None)
    return read_crew(layers, [own_path()])


def _refuse_found(path: str) -> None:
    """Raise where a crew was only found, in a folder that this user does not trust."""
    folder = os.path.dirname(path)
    if not is_safe(folder):
        raise Refused(
            f"{path} was only found here, and starts nothing: look at it, then trust it with 'bus"
            f" trust add {shlex.quote(folder)}', or name it: 'bus crew start {_FOUND}'"
        )
