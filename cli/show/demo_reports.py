"""The reports at the end of the three demos: results, the proof, commands to try next."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import asdict

from ...bus.bus import Bus
from ...demo.worker import DONE, totals_of
from ..own_session import own_path
from . import output
from .text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...demo.automation import AutomationProof, AutomationRun
    from ...demo.run import DemoProof, DemoRun, Takeover
    from ...demo.tasks import TasksProof, TasksRun
    from ...demo.worker import Totals
    from ...schema.message.message import Message

# The report at the end of the demo of the automation: the proof, and commands to try next.


def print_automation_report(run: AutomationRun) -> None:
    """Print the report; with --json one object for the whole."""
    summary = asdict(run) | {"proof": {**asdict(run.proof), "holds": run.proof.holds}}
    output.result({"summary": summary}, *_automation_lines(run))


def _automation_lines(run: AutomationRun) -> Iterator[str]:
    yield f"{run.went_by_s / 3600:.1f} hours of automation, in {run.took_s:.1f} s"
    yield ""
    yield f"Proof, counted in the log: {'it holds' if run.proof.holds else 'IT FAILS'}"
    yield from _automation_proof(run.proof)
    yield ""
    yield "Look around:"
    yield from _automation_next_steps(run)


def _automation_proof(proof: AutomationProof) -> Iterator[str]:
    skipped = "".join(f"; {count} skipped: {why}" for why, count in proof.skipped.items())
    fanned = ", ".join(f"{count} {name}" for name, count in proof.fanned_out.items())
    yield f"  {proof.jobs} jobs, {proof.ended_once} of them with one end each"
    yield f"  {proof.fired} times of schedules fired, each with one job{skipped}"
    yield f"  fan-out: {fanned}"
    yield f"  webhooks: 2 deliveries of one id and a forged one began {proof.webhooks} run"
    yield f"  its steps: {', '.join(proof.steps)}; attempts at one: {', '.join(proof.attempts)}"
    yield f"  the breaker: {', '.join(proof.breaker)}"


def _automation_next_steps(run: AutomationRun) -> Iterator[str]:
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


def print_report(run: DemoRun) -> None:
    """Print the report; with --json one object for each result, then one for the whole."""
    with Bus.open(run.directory) as bus:
        if output.is_json():
            for answer in bus.read(type=DONE):
                about = {"task": answer.in_reply_to, "from": answer.from_agent}
                output.json_line(about | answer.payload)
        totals, largest = totals_of(bus.read())
        jsonl = bus.layout.jsonl
    proof = {**asdict(run.proof), "holds": run.proof.holds}
    summary = {"totals": asdict(totals), "proof": proof, **asdict(run), "jsonl": jsonl}
    if not output.is_json() and largest:
        headings = ("file", "bytes", "lines", "Python", "by")
        output.table(headings, [_row(result) for result in largest])
    output.result({"summary": summary | {"proof": proof}}, *_lines(run, totals, jsonl))


def _row(result: Message) -> tuple[object, ...]:
    report = result.payload
    numbers = (f"{report['bytes']:,}", f"{report['lines']:,}")
    return (report["path"], *numbers, report["python"], result.from_agent)


def _lines(run: DemoRun, totals: Totals, jsonl: str) -> Iterator[str]:
    yield ""
    yield (
        f"In all: {counted(totals.files, 'file')}, {counted(totals.bytes, 'byte')},"
        f" {counted(totals.lines, 'line')}, in {run.took_s:.1f} s"
    )
    remarks = (
        (totals.python_ok, "Python without syntax errors"),
        (totals.python_errors, "Python with syntax errors"),
        (totals.python_not_checked, "Python, too large to check"),
        (totals.failed, "could not be read"),
        (run.binary, "binary, left out"),
        (run.unreadable_directories, "directories that can't be listed"),
        *((count, f"by {worker}") for worker, count in sorted(totals.by_agent.items())),
    )
    for count, what in remarks:
        if count:
            yield f"  {count:,} {what}"
    yield ""
    yield from _proof(run.proof)
    yield ""
    yield "The log as text, one message a line:"
    yield f"  {shlex.quote(jsonl)}"
    yield "Look around:"
    yield from _next_steps(run)


def _proof(proof: DemoProof) -> Iterator[str]:
    yield f"Proof, counted in the log: {'it holds' if proof.holds else 'IT FAILS'}"
    yield (
        f"  {counted(proof.tasks, 'task')}, {proof.examined:,} of them examined under a claim,"
        f" {proof.reported_once:,} reported exactly once; {counted(proof.results, 'result')} in all"
    )
    if proof.takeover is None:
        yield "  no worker was killed, so no takeover was shown"
    else:
        yield from _takeover(proof.takeover)


def _takeover(takeover: Takeover) -> Iterator[str]:
    lost, won = takeover.tokens
    yield (
        f"  {takeover.killed} (process {takeover.pid}) was killed on purpose, with SIGKILL,"
        f" while it had the claim of {takeover.path} (token {lost})"
    )
    if takeover.holds:
        yield f"  {takeover.taken_over_by} took it over (token {won}) and reported it"
    else:
        yield "  no worker took it over"


def _next_steps(run: DemoRun) -> Iterator[str]:
    """Yield commands that can be pasted into the shell."""
    bus = "bus" if shutil.which("bus") else shlex.quote(own_path())
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} tail -n 20 {where}"
    if run.proof.takeover is not None:
        yield f"  {bus} trace {run.proof.takeover.task} {where}"
    yield f"  {bus} queue list {where}"
    yield f"  {bus} agents {where}"


# The report at the end of the demo of tasks: the proof, and commands to try next.


def print_tasks_report(run: TasksRun) -> None:
    """Print the report; with --json one object for the whole."""
    summary = asdict(run) | {"proof": {**asdict(run.proof), "holds": run.proof.holds}}
    output.result({"summary": summary}, *_tasks_lines(run))


def _tasks_lines(run: TasksRun) -> Iterator[str]:
    yield f"From a request to {len(run.proof.landed)} merged tasks, in {run.took_s:.1f} s"
    yield ""
    yield f"Proof, counted in the log and in git: {'it holds' if run.proof.holds else 'IT FAILS'}"
    yield from _tasks_proof(run.proof)
    yield f"  {run.killed} was killed at its work; {run.taken_over_by} went on with its branch"
    yield ""
    yield "Look around:"
    yield from _tasks_next_steps(run)


def _tasks_proof(proof: TasksProof) -> Iterator[str]:
    once = sum(count == 1 for count in proof.landings.values())
    yield f"  {proof.planned} jobs planned; {once} tasks landed, each of them once"
    for task, reasons in sorted(proof.ended.items()):
        for reason in reasons:
            yield f"  {task} was tried again: {reason.splitlines()[0]}"
    yield f"  main was at {proof.positions} commits, and {proof.checked} of them had been checked"
    yield f"  agents were done with {proof.commits} commits, and git has {proof.kept} of them"


def _tasks_next_steps(run: TasksRun) -> Iterator[str]:
    """Yield commands that can be pasted into the shell."""
    bus = "bus" if shutil.which("bus") else shlex.quote(own_path())
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} task list --all {where}"
    yield f"  {bus} task log {run.proof.landed[-1]} {where}"
    yield f"  git -C {shlex.quote(run.repository)} log --graph --oneline main"
