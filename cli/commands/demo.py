"""The bus at work on a person's own files: demo."""

from __future__ import annotations

from typing import Annotated

import typer

from ...demo.run import run_demo
from ...schema.errors import InvalidInput
from ..definition import Commands
from ..options.common import Json, Verbose, directory_option
from ..show import output
from ..show.progress import progress
from ..show.reports.demo_report import print_report

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
        from ...demo.tasks.run import run_tasks_demo
        from ..show.reports.tasks_report import print_tasks_report

        done = run_tasks_demo(directory=directory, say=output.note, progress=progress)
        print_tasks_report(done)
        return 0 if done.proof.holds else 1
    if automation:
        from ...demo.automation.run import run_automation_demo
        from ..show.reports.automation_report import print_automation_report

        ran = run_automation_demo(directory=directory, say=output.note, progress=progress)
        print_automation_report(ran)
        return 0 if ran.proof.holds else 1
    run = run_demo(path, directory=directory, say=output.note, progress=progress)
    print_report(run)
    return 0 if run.proof.holds else 1
