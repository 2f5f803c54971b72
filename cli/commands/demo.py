"""Runs on made-up work: demo, torture."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from ...demo.run import run_demo
from ...schema.errors import InvalidInput
from ...torture.history import TorturePlan
from ...torture.run import run_torture
from ..definition import Commands, optional, optional_word
from ..options.common import Json, Verbose, directory_option
from ..show import output
from ..show.demo_reports import print_report
from ..show.terminal import progress
from ..show.torture_report import TortureReporter

commands = Commands()

Directory = Annotated[
    str | None,
    directory_option("The bus directory to make and keep. Default: a fresh temporary directory."),
]


@commands.command("demo", example="bus demo src")
def demo(
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
    halfway. The bus is made in --dir DIR, else in a fresh temporary directory, and stays there.
    Exit code 1 when a file was not examined, or reported twice; 4 when there is none.

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
        from ..show.demo_reports import print_tasks_report

        done = run_tasks_demo(directory=directory, say=output.note, progress=progress)
        print_tasks_report(done)
        return 0 if done.proof.holds else 1
    if automation:
        from ...demo.automation import run_automation_demo
        from ..show.demo_reports import print_automation_report

        ran = run_automation_demo(directory=directory, say=output.note, progress=progress)
        print_automation_report(ran)
        return 0 if ran.proof.holds else 1
    run = run_demo(path, directory=directory, say=output.note, progress=progress)
    print_report(run)
    return 0 if run.proof.holds else 1


# A test of a disk, and of the bus on it, by killing agents at random.


@commands.command("torture", example="bus torture --agents 35 --minutes 5")
def torture(
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
        reporter=TortureReporter(json=output.is_json()),
    )
