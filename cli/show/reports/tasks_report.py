"""The report at the end of the demo of tasks: the proof, and commands to try next."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import asdict

from ...own_path import own_path
from .. import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....demo.tasks.proof import TasksProof
    from ....demo.tasks.run import TasksRun


def print_tasks_report(run: TasksRun) -> None:
    """Print the report; with --json one object for the whole."""
    summary = asdict(run) | {"proof": {**asdict(run.proof), "holds": run.proof.holds}}
    output.result({"summary": summary}, *_lines(run))


def _lines(run: TasksRun) -> Iterator[str]:
    yield f"From a request to {len(run.proof.landed)} merged tasks, in {run.took_s:.1f} s"
    yield ""
    yield f"Proof, counted in the log and in git: {'it holds' if run.proof.holds else 'IT FAILS'}"
    yield from _proof(run.proof)
    yield f"  {run.killed} was killed at its work; {run.taken_over_by} went on with its branch"
    yield ""
    yield "Look around:"
    yield from _next_steps(run)


def _proof(proof: TasksProof) -> Iterator[str]:
    once = sum(count == 1 for count in proof.landings.values())
    yield f"  {proof.planned} jobs planned; {once} tasks landed, each of them once"
    for task, reasons in sorted(proof.ended.items()):
        for reason in reasons:
            yield f"  {task} was tried again: {reason.splitlines()[0]}"
    yield f"  main was at {proof.positions} commits, and {proof.checked} of them had been checked"
    yield f"  agents were done with {proof.commits} commits, and git has {proof.kept} of them"


def _next_steps(run: TasksRun) -> Iterator[str]:
    """Yield commands that can be pasted into the shell."""
    bus = "bus" if shutil.which("bus") else shlex.quote(own_path())
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} task list --all {where}"
    yield f"  {bus} task log {run.proof.landed[-1]} {where}"
    yield f"  git -C {shlex.quote(run.repository)} log --graph --oneline main"
