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
    repository = how.place()
    rules = how.rules(repository, agent)
    if dry_run and branch:
        raise InvalidInput("--branch adds to the queue, and --dry-run changes nothing: give one")
    results: list[Result] = []

    def tell(result: Result) -> None:
        results.append(result)
        _print(result)

    with place.open() as bus:
        if dry_run:
            for result in look(bus, repository, rules):
                tell(result)
        else:
            if not rules.checks:
                output.note(
                    "warning: there are no checks, so what merges lands untested: give --check CMD,"
                    " or set ackbus.check in git"
                )
            if branch:
                request(bus, repository, rules, branch)
            integrator = Integrator(bus, repository.main, rules, tell=tell, warn=output.note)
            _run(integrator, once=once or bool(branch))
    if not results:
        return 4 if once or branch or dry_run else 0
    return 3 if any(_has_failed(result) for result in results) else 0


def _run(integrator: Integrator, *, once: bool) -> None:
    """Run an integrator until it is done, or a signal stops it; a second one kills checks."""
    show_logs()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        integrator.stop(*([0.0] if told else []))
        told.append(number)

    obey(stop, *_SIGNALS, keeps_ignored=True)
    integrator.run(once=once)


def _has_failed(result: Result) -> bool:
    return result.outcome not in ("landed", "requeued", "proposed", "would_land")


def _print(result: Result) -> None:
    said = [result.commit[:12]] if result.commit else []
    if result.reason:
        said.append(result.reason)
    if result.files:
        said.append(", ".join(_with_other(result, file) for file in result.files))
    outcome = "would land" if result.outcome == "would_land" else result.outcome
    output.result(result.record(), f"{result.entry.name}: {outcome}  {': '.join(said)}")
    output.flush()


def _with_other(result: Result, file: str) -> str:
    other = result.others.get(file)
    return file if other is None else f"{file} (last changed by {other})"
