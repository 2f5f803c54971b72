"""Runs on made-up work: demo, torture."""

from __future__ import annotations

import os
import random
import shlex
import shutil
from dataclasses import asdict
from typing import Annotated

import typer

from ...bus.local_bus import LocalBus
from ...demo.run import run_demo
from ...demo.worker import DONE, totals_of
from ...schema.errors import InvalidInput
from ...torture.history import TorturePlan
from ...torture.run import run_torture
from ..definition import Commands, optional, optional_word
from ..extras import install_command, is_installed
from ..options.common import Json, Verbose, directory_option
from ..own_session import own_path
from ..show.output import Output
from ..show.terminal import progress
from ..show.text import counted
from ..show.torture_report import TortureReporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...demo.automation import AutomationProof, AutomationRun
    from ...demo.run import DemoProof, DemoRun, Takeover
    from ...demo.tasks import TasksProof, TasksRun
    from ...demo.worker import Totals
    from ...schema.message.message import Message

# The reports at the end of the three demos: results, the proof, commands to try next.


def _own_command() -> str:
    """Return the command `bus` as a shell finds it."""
    return "bus" if shutil.which("bus") else shlex.quote(own_path())


def _last_steps(directory: str, leftovers: list[str]) -> Iterator[str]:
    """Yield the command that shows the page, and the one that removes what the demo made."""
    yield "See it all in the browser:"
    yield f"  {_own_command()} ui --dir {shlex.quote(directory)}"
    if not is_installed("server"):
        yield "  and before it, as the page needs more packages:"
        yield f"  {install_command('server')}"
    yield "Remove what the demo made:"
    if leftovers:
        # Objects of git are read-only: without -f a terminal is asked about each of them.
        yield f"  rm -rf {shlex.join(leftovers)}"
    if not any(os.path.commonpath((directory, path)) == path for path in leftovers):
        yield f"  and the bus in {shlex.quote(directory)}, a folder that was there before"


# The report at the end of the demo of the automation: the proof, and commands to try next.


def print_automation_report(output: Output, run: AutomationRun) -> None:
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
    yield from _last_steps(run.directory, run.made)


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
    bus = _own_command()
    log = f"--dir {shlex.quote(run.directory)}"
    service = f"--config {shlex.quote(run.folder)}"
    if not run.directory.startswith(run.folder):  # the service's own bus needs no name
        service = f"{service} {log}"
    yield f"  {bus} schedule history pump.default {service}"
    yield f"  {bus} automation breaker pump {service}"
    yield f"  {bus} automation logs check {service}"
    yield f"  {bus} trace {run.first_step} {log}"
    yield f"  {bus} search shelf {log}"


def print_report(output: Output, run: DemoRun) -> None:
    """Print the report; with --json one object for each result, then one for the whole."""
    with LocalBus.open(run.directory) as bus:
        if output.is_json:
            for answer in bus.read(type=DONE):
                about = {"task": answer.in_reply_to, "from": answer.from_agent}
                output.json_line(about | answer.payload)
        totals, largest = totals_of(bus.read())
        jsonl = bus.layout.jsonl
    proof = {**asdict(run.proof), "holds": run.proof.holds}
    summary = {"totals": asdict(totals), "proof": proof, **asdict(run), "jsonl": jsonl}
    if not output.is_json and largest:
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
    yield from _last_steps(run.directory, run.made)


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
    bus = _own_command()
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} tail -n 20 {where}"
    if run.proof.takeover is not None:
        yield f"  {bus} trace {run.proof.takeover.task} {where}"
    yield f"  {bus} queue list {where}"
    yield f"  {bus} agents {where}"


# The report at the end of the demo of tasks: the proof, and commands to try next.


def print_tasks_report(output: Output, run: TasksRun) -> None:
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
    yield from _last_steps(run.directory, run.made)


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
    bus = _own_command()
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} task list --all {where}"
    yield f"  {bus} task log {run.proof.landed[-1]} {where}"
    yield f"  git -C {shlex.quote(run.repository)} log --graph --oneline main"


commands = Commands()

Directory = Annotated[
    str | None,
    directory_option("The bus directory to make and keep. Default: a fresh temporary directory."),
]


@commands.command("demo", example="bus demo src")
def demo(
    output: Output,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder to examine.")] = ".",
    automation: Annotated[
        bool, typer.Option("--automation", help="Show schedules, routes and pipelines instead.")
    ] = False,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="Show agents on git branches instead.")
    ] = False,
    directory: Directory = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Show the bus at work on your own files.

    Workers examine every text file under PATH, as jobs of a queue, and one of them is killed
    halfway. The files stay as they are. The bus is made in --dir DIR, else in a fresh temporary
    directory, and stays there. Exit code 1 when a file was not examined, or reported twice; 4 when
    there is none.

    With --automation, a service runs plugins of the demo's own, on a clock that jumps: a schedule
    is due, routes fan out, a webhook begins a pipeline, a step is retried, a breaker opens and
    closes. Nothing of PATH is read. Exit code 1 when anything happened too often or too seldom.

    With --tasks, scripted agents work on branches of a new repository: a request becomes six jobs,
    two of them conflict, one fails its check, one agent is killed. Exit code 1 when anything did
    not land, a commit of main was not checked, or one is lost.
    """
    if automation and tasks:
        raise InvalidInput("give --automation or --tasks, not both")
    if tasks:
        from ...demo.tasks import run_tasks_demo

        done = run_tasks_demo(directory=directory, say=output.note, progress=progress)
        print_tasks_report(output, done)
        return 0 if done.proof.holds else 1
    if automation:
        from ...demo.automation import run_automation_demo

        ran = run_automation_demo(directory=directory, say=output.note, progress=progress)
        print_automation_report(output, ran)
        return 0 if ran.proof.holds else 1
    run = run_demo(path, directory=directory, say=output.note, progress=progress)
    print_report(output, run)
    return 0 if run.proof.holds else 1


# A test of a disk, and of the bus on it, by killing agents at random.


@commands.command("torture", example="bus torture --agents 35 --minutes 5")
def torture(
    output: Output,
    directory: Annotated[
        str | None,
        optional_word(
            "[DIRECTORY]",
            "An empty directory on the disk to test, or one to make. Default: a new one here.",
        ),
    ] = None,
    agents: Annotated[
        int, typer.Option(metavar="N", min=8, max=500, help="How many processes.")
    ] = 35,
    minutes: Annotated[
        float, typer.Option(metavar="M", min=0.02, help="For how long, without the proof.")
    ] = 1.0,
    kill_every: Annotated[
        float,
        typer.Option(
            metavar="S", min=0, help="Seconds between two kills, on average; 0: no kills."
        ),
    ] = 0.3,
    seed: Annotated[
        int | None, optional("N", "The seed of random choices. Default: another one each time.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the bus and the histories there in any case.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Test the disk: kill agents at random, and look for losses.

    Publishers, readers, workers, holders of leases, an exporter and an archiver work on a bus of
    their own, and are ended with SIGKILL, suspended, and started again. Each records the results
    of its calls. These histories and the files then prove that no acknowledged message is missing
    or doubled, that every inbox came in order, that no lease and no job was held twice, that each
    job has one answer, and that bus.jsonl is what a rebuild writes. The files are removed if all
    proofs hold. Exit code 1 when one fails.
    """
    chosen = random.randrange(2**32) if seed is None else seed
    return run_torture(
        TorturePlan(agents, minutes, kill_every, chosen),
        directory,
        keep=keep,
        reporter=TortureReporter(output),
    )
