"""The integrator: integrate."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.stop_limit import obey
from ...tasks.integrate.integrator import Integrator
from ...tasks.integrate.requests import look, request
from ..definition import Commands, optional
from ..logs import show_logs
from ..options.common import HERE, Place
from ..options.integration import AS_GIVEN, Integration
from ..running.looking import looking
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...tasks.integrate.entries import Result

commands = Commands()

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@commands.command("integrate", example="bus integrate --into main --check 'make test'")
def integrate(
    how: Integration = AS_GIVEN,
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
    place: Place = HERE,
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
        return _look(how, agent, place)
    repository = how.place()
    rules = how.rules(repository, agent)
    results: list[Result] = []

    def tell(result: Result) -> None:
        results.append(result)
        _print(result)

    with place.open() as bus:
        if not rules.checks:
            output.note(
                "warning: there are no checks, so what merges lands untested: give --check CMD,"
                " or set ackbus.check in git"
            )
        if branch:
            request(bus, repository, rules, branch)
        integrator = Integrator(bus, repository.main, rules, tell=tell, warn=output.note)
        _run(integrator, once=once or bool(branch))
    return _code_of(results, is_told=once or bool(branch))


@looking()
def _look(how: Integration, agent: str | None, place: Place) -> int:
    repository = how.place()
    rules = how.rules(repository, agent)
    results: list[Result] = []
    with place.open() as bus:
        for result in look(bus, repository, rules):
            results.append(result)
            _print(result)
    return _code_of(results, is_told=True)


def _code_of(results: list[Result], *, is_told: bool) -> int:
    """Return the exit code; `is_told` is whether it says that there was nothing."""
    if not results:
        return 4 if is_told else 0
    return 3 if any(_has_failed(result) for result in results) else 0


def _run(integrator: Integrator, *, once: bool) -> None:
    """Run an integrator until it is done, or a signal stops it; a second one kills checks."""
    show_logs()
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        integrator.stop(*([0.0] if told else []))
        told.append(number)

    obey(stop, *_SIGNALS, keeps_ignored=True)
    integrator.run(once=once)


def _has_failed(result: Result) -> bool:
    return result.outcome in ("conflict", "check_failed", "rejected")


def _print(result: Result) -> None:
    said = [result.commit[:12]] if result.commit else []
    if result.reason:
        said.append(result.reason)
    if result.files:
        said.append(", ".join(_with_other(result, file) for file in result.files))
    looked_at = result.outcome in ("would_land", "not_known")
    outcome = result.outcome.replace("_", " ") if looked_at else result.outcome
    output.result(result.record(), f"{result.entry.name}: {outcome}  {': '.join(said)}")
    output.flush()


def _with_other(result: Result, file: str) -> str:
    other = result.others.get(file)
    return file if other is None else f"{file} (last changed by {other})"
