"""The roles of tasks as processes: crew start, stop, status; integrate."""

from __future__ import annotations

import os
import shlex
import signal
from functools import partial
from typing import Annotated

import typer

from ...schema.directory.trust import is_safe
from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.stop_limit import obey
from ...tasks.crew import is_running, running_pid, saved_state, stop_running
from ...tasks.integrate.integrator import Integrator
from ...tasks.integrate.requests import look, request, unlanded
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, BusPlace
from ..options.tasks import AS_GIVEN, IntegrationOptions
from ..own_session import own_path
from ..running import crew_host as view
from ..running.crew_host import run_here, start_behind
from ..running.crew_host import watch as go_on_watching
from ..running.looking import looking
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...bus.local_bus import LocalBus
    from ...tasks.crew_file import CrewFile
    from ...tasks.integrate.entries import LandingResult

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
    place: BusPlace = HERE,
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
    crew_file = _read(file)
    if check:
        roles = [{"name": role.name, "argv": list(role.argv)} for role in crew_file.roles]
        place.output.result(
            {"file": crew_file.path, "roles": roles}, f"{crew_file.path}: {len(roles)} roles"
        )
        return 0
    with place.open(lives_long=not detach) as bus:
        if file is None:
            _refuse_found(crew_file.path)
        if not detach:
            return run_here(place.output, bus, crew_file)
        pid = start_behind(bus, crew_file.path)
    place.output.result({"pid": pid}, f"the crew runs as process {pid}; see 'bus crew status'")
    return 0


@crew.command("stop", example="bus crew stop")
def stop(
    wait: Annotated[
        str, typer.Option(metavar="D", help="How long to wait until nothing of it is left.")
    ] = "30s",
    place: BusPlace = HERE,
) -> int:
    """End the crew, and wait until nothing of it is left.

    Exit code 4 when none runs, 5 when it has not ended in time.
    """
    wait_s = arguments.seconds(wait, "--wait")
    with place.open() as bus:
        pid = stop_running(bus, wait_s)
    place.output.result({"pid": pid, "stopped": True}, f"process {pid} has ended, and its roles")
    return 0


@crew.command("status", example="bus crew status --watch")
def status(
    watch: Annotated[bool, typer.Option("--watch", help="Repeat, until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="D", help="With --watch: how often.")] = "1s",
    place: BusPlace = HERE,
) -> int:
    """Print the roles of the crew, and what the agent of each is at.

    Exit code 4 when no crew runs.
    """
    with place.open() as bus:
        if watch:
            look_again = partial(_look, bus)
            go_on_watching(
                place.output, look_again, every, table=view.table, lines=view.print_lines
            )
        view.print_lines(place.output, _look(bus))
        pid = running_pid(bus)
    place.output.detail(f"process {pid}")
    return 0


def _look(bus: LocalBus) -> list[view.RoleView]:
    if not is_running(bus):
        raise NotFound("no crew of this bus runs; start one with 'bus crew start'")
    now_ms = bus.now_ms()
    roles = (saved_state(bus) or {}).get("roles", [])
    return [view.RoleView(role, bus.heartbeats.get(role["name"]), now_ms) for role in roles]


def _read(path: str | None) -> CrewFile:
    from ...tasks.crew_file import read_crew, read_layers

    file = os.path.abspath(path or _FOUND)
    layers = read_layers(file, os.environ, is_named=path is not None)
    return read_crew(file, layers, [own_path()])


def _refuse_found(path: str) -> None:
    """Raise where a crew was only found, in a folder that this user does not trust."""
    folder = os.path.dirname(path)
    if not is_safe(folder):
        raise Refused(
            f"{path} was only found here, and starts nothing: look at it, then trust it with 'bus"
            f" trust add {shlex.quote(folder)}', or name it: 'bus crew start {_FOUND}'"
        )


# The integrator: integrate.

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


#: How many tasks that have not landed are named.
_NOTED = 10


@commands.command("integrate", example="bus integrate --into main --check 'make test'")
def integrate(
    how: IntegrationOptions = AS_GIVEN,
    branch: Annotated[
        list[str] | None,
        optional("NAME", "Add a branch without a task; it may be repeated.", "--branch"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when nothing waits.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would conflict; claim and change nothing."),
    ] = False,
    agent: Annotated[
        str | None, optional("A", "The name of the integrator. Default: $BUS_AGENT.", "--agent")
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Land what is approved, once its checks pass.

    Checks run by sh in a work tree of the candidate. They are these options, or those of 'git
    config ackbus.check': no commit can change them, but what they run is the candidate's. Several
    entries are tested together, and halved when a check fails. What conflicts or fails goes back to
    its worker. With --branch it ends when nothing waits. 'bus queue pause completions' holds the
    queue. Exit code 3 when something did not land, the target's work tree is not clean, or another
    integrator works on it; 4 when nothing waited.
    """
    if dry_run and branch:
        raise InvalidInput("--branch adds to the queue, and --dry-run changes nothing: give one")
    if dry_run:
        return _look_first(how, agent, place)
    repository = how.place()
    rules = how.rules(repository, agent)
    results: list[LandingResult] = []

    def tell(result: LandingResult) -> None:
        results.append(result)
        _print(place.output, result)

    with place.open(lives_long=not (once or branch)) as bus:
        if not rules.checks:
            place.output.note(
                "warning: there are no checks, so what merges lands untested: give --check CMD,"
                " or set ackbus.check in git"
            )
        if branch:
            request(bus, repository, rules, branch)
        integrator = Integrator(bus, repository.main, rules, tell=tell, warn=place.output.note)
        _run(place.output, integrator, once=once or bool(branch))
        if once:
            _note_waiting(place.output, list(unlanded(bus, repository, rules.target)))
    return _code_of(results, is_told=once or bool(branch))


def _note_waiting(output: Output, sentences: list[str]) -> None:
    """Note what has not landed, and whom it waits for."""
    for sentence in sentences[:_NOTED]:
        output.note(sentence)
    if len(sentences) > _NOTED:
        output.note(f"and {len(sentences) - _NOTED} more tasks; see 'bus task list'")
    if not sentences:
        output.remark("no task waits to land; see 'bus task list --all'")


@looking()
def _look_first(how: IntegrationOptions, agent: str | None, place: BusPlace) -> int:
    repository = how.place()
    rules = how.rules(repository, agent)
    results: list[LandingResult] = []
    with place.open() as bus:
        for result in look(bus, repository, rules):
            results.append(result)
            _print(place.output, result)
    return _code_of(results, is_told=True)


def _code_of(results: list[LandingResult], *, is_told: bool) -> int:
    """Return the exit code; with `is_told` it is 4 if there was nothing to land."""
    if not results:
        return 4 if is_told else 0
    return 3 if any(_has_failed(result) for result in results) else 0


def _run(output: Output, integrator: Integrator, *, once: bool) -> None:
    """Run an integrator until it is done, or a signal stops it; a second one kills checks."""
    output.show_logs()
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        integrator.stop(*([0.0] if signals else []))
        signals.append(number)

    obey(stop, *_SIGNALS, keeps_ignored=True)
    integrator.run(once=once)


def _has_failed(result: LandingResult) -> bool:
    return result.outcome in ("conflict", "check_failed", "rejected")


def _print(output: Output, result: LandingResult) -> None:
    details = [result.commit[:12]] if result.commit else []
    if result.reason:
        details.append(result.reason)
    if result.files:
        details.append(", ".join(_with_other(result, file) for file in result.files))
    looked_at = result.outcome in ("would_land", "not_known")
    outcome = result.outcome.replace("_", " ") if looked_at else result.outcome
    output.result(result.record(), f"{result.entry.name}: {outcome}  {': '.join(details)}")
    output.flush()


def _with_other(result: LandingResult, file: str) -> str:
    other = result.others.get(file)
    return file if other is None else f"{file} (last changed by {other})"
