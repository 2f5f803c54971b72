"""The report at the end of the demo of the automation: the proof, and commands to try next."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import asdict

from ...own_path import own_path
from .. import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....demo.automation.proof import AutomationProof
    from ....demo.automation.run import AutomationRun


def print_automation_report(run: AutomationRun) -> None:
    """Print the report; with --json one object for the whole."""
    summary = asdict(run) | {"proof": {**asdict(run.proof), "holds": run.proof.holds}}
    output.result({"summary": summary}, *_lines(run))


def _lines(run: AutomationRun) -> Iterator[str]:
    yield f"{run.went_by_s / 3600:.1f} hours of automation, in {run.took_s:.1f} s"
    yield ""
    yield f"Proof, counted in the log: {'it holds' if run.proof.holds else 'IT FAILS'}"
    yield from _proof(run.proof)
    yield ""
    yield "Look around:"
    yield from _next_steps(run)


def _proof(proof: AutomationProof) -> Iterator[str]:
    skipped = "".join(f"; {count} skipped: {why}" for why, count in proof.skipped.items())
    fanned = ", ".join(f"{count} {name}" for name, count in proof.fanned_out.items())
    yield f"  {proof.jobs} jobs, {proof.ended_once} of them with one end each"
    yield f"  {proof.fired} times of schedules fired, each with one job{skipped}"
    yield f"  fan-out: {fanned}"
    yield f"  webhooks: 2 deliveries of one id and a forged one began {proof.webhooks} run"
    yield f"  its steps: {', '.join(proof.steps)}; attempts at one: {', '.join(proof.attempts)}"
    yield f"  the breaker: {', '.join(proof.breaker)}"


def _next_steps(run: AutomationRun) -> Iterator[str]:
    """Yield commands that can be pasted into the shell."""
    bus = "bus" if shutil.which("bus") else shlex.quote(own_path())
    log = f"--dir {shlex.quote(run.directory)}"
    service = f"--config {shlex.quote(run.folder)}"
    if not run.directory.startswith(run.folder):  # the service's own bus needs no name
        service = f"{service} {log}"
    yield f"  {bus} schedule history pump.default {service}"
    yield f"  {bus} automation breaker pump {service}"
    yield f"  {bus} automation logs check {service}"
    yield f"  {bus} trace {run.first_step} {log}"
    yield f"  {bus} search shelf {log}"
