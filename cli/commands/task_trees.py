"""The work trees of tasks: spawn, done, diff, attach, clean. `bus task` takes these in."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from typing import Annotated

import typer

from ...git.sealed import NotTrusted
from ...schema.errors import InvalidInput
from ...tasks.agent_program import environment_of_task
from ...tasks.board.forecast import reserved_by_others
from ...tasks.finish import Cleaner, TaskDiff, finish_task, tree_of
from ...tasks.spawn import Spawner
from ...tasks.steps.tasks import Tasks
from .. import arguments
from ..definition import Commands
from ..options.common import HERE, BusPlace
from ..options.tasks import (
    LEASE,
    Actor,
    LeaseTime,
    Name,
    NewTaskOptions,
    NewTreeOptions,
    Token,
    note_reserved,
    print_task,
    required_token,
    spec_of,
)
from ..running.looking import looking
from ..show.output import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...tasks.finish import Cleaned

commands = Commands()

_CLEANED = ("TASK", "OUTCOME", "PATH", "NOTE")


@commands.command("spawn", example="bus task spawn fix-login --worker worker-1 --prompt @todo.md")
def spawn(
    name: Name,
    worker: Annotated[
        str, typer.Option("--worker", metavar="A", help="The agent that is to work on it.")
    ],
    task: NewTaskOptions,
    tree: NewTreeOptions,
    lease: LeaseTime = LEASE,
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Make a task with a branch and a work tree of its own.

    Its worker has it under a lease. The tree is in REPOSITORY.trees, beside the main one, or where
    git's setting ackbus.trees says; ackbus.copy and ackbus.setup are defaults too. Safe to repeat:
    what was cut off is ended, and a tree that was deleted comes back. The agent that acts is its
    requester: it is asked for reviews and answers.

    Exit code 3 when the name, the branch or the path is taken, or when the task is there and was
    cancelled, has failed, or was made otherwise than an option says.
    """
    lease_s = arguments.seconds(lease, "--lease")
    agent = arguments.sender(agent, "--agent")
    spec = spec_of(name, worker, task, tree)
    with place.open() as bus:
        spawned = Spawner(bus).spawn(spec, agent=agent, lease_s=lease_s)
        print_task(place.output, spawned, spawned.path)
    return 0


@commands.command("done", example="bus task done fix-login --agent worker-1 --token 7")
def done(name: Name, agent: Actor = None, token: Token = None, place: BusPlace = HERE) -> int:
    """End the work on a task: WORKING becomes IN_REVIEW.

    The head of its branch is what is reviewed and integrated, whatever comes later.

    Exit code 3 when its work tree is not clean, is on another branch, or has no commit beyond the
    base; and when the task is not WORKING, or no longer held with this token. Changed files that
    others have reserved are named on stderr.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        finished = finish_task(bus, name, agent=agent, token=required_token(token))
        print_task(place.output, finished)
        note_reserved(place.output, bus, reserved_by_others(bus, [finished]))
    return 0


@commands.command("diff", example="bus task diff fix-login --stat")
@looking()
def diff(
    name: Name,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, with counts.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Print what a task has changed, as committed.

    It is a patch; with --json the files and the counts of their lines.

    Exit code 4 when it has changed nothing, or its branch is gone.
    """
    with place.open() as bus:
        try:
            changes = TaskDiff.of(bus, Tasks(bus).get(name))
        except NotTrusted as error:
            place.output.note(str(error))
            return 0
    files = changes.files()
    if stat or place.output.is_json:
        records = [
            {"file": file.readable, "added": file.added, "removed": file.removed} for file in files
        ]
        return place.output.results(records)
    if files:
        place.output.body(changes.text())
    return 0 if files else NOTHING


@commands.command("attach", example="bus task attach fix-login -- git log")
def attach(
    name: Name,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD...", help="Default: your shell.")
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Run a shell, or a command, in the work tree of a task.

    It gets the variables of the task, BUS_TASK, BUS_TASK_TOKEN and more; its exit code is that of
    the command.
    """
    with place.open() as bus:
        task = Tasks(bus).get(name)
        path = tree_of(bus, task)
        variables = environment_of_task(task, bus.layout.directory, task.worker)
    words = command or [os.environ.get("SHELL") or "sh"]
    place.output.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these, and a program inherits that
    try:
        os.chdir(path)
        os.execvpe(words[0], words, {**os.environ, **variables})
    except OSError as error:
        raise InvalidInput(f"{words[0]} can't be run in {path}: {error.strerror}") from error


@commands.command("clean", example="bus task clean --dry-run")
def clean(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK]...", help="Only of these.", show_default=False),
    ] = None,
    rescue: Annotated[
        bool, typer.Option("--rescue", help="Keep what is not committed at a ref, and go on.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, only say.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Remove the work trees and branches of tasks that are over.

    Commits that have not landed are kept first, at refs/ackbus/rescue/TASK/..., which are printed.
    Kept and named are trees that are not clean, unless --rescue keeps their files as well, and
    those that somebody uses. By its name goes also a tree that was never finished, as doctor says.
    Exit code 3 when something was kept, 4 when nothing was to clean.
    """
    with looking() if dry_run else nullcontext(), place.open() as bus:
        cleaned = Cleaner(bus).clean(names or (), keeps_files=rescue, is_dry=dry_run)
    rows = [(tree.task, tree.record()["outcome"], tree.path, _note_of(tree)) for tree in cleaned]
    code = place.output.results([tree.record() for tree in cleaned], rows, _CLEANED)
    return code if all(tree.is_removed for tree in cleaned) else 3


def _note_of(cleaned: Cleaned) -> str:
    refs = ", ".join(cleaned.refs)
    rescue_note = f"kept at {refs}" if refs else ""
    return "; ".join(filter(None, (cleaned.reason, rescue_note)))
