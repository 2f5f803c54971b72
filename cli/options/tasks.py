"""The options that commands of tasks share, and the output of a task."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.message.times import age
from ..definition import optional
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...bus.bus import Bus
    from ...tasks.board.reserved import Reserved
    from ...tasks.records.task import Task
    from ...tasks.steps.task_jobs import TaskJob

#: The variable that names the token of a task to the programs that work on it.
TOKEN_VARIABLE = "BUS_TASK_TOKEN"

Name = Annotated[str, typer.Argument(metavar="TASK", help="The name of the task.")]
Actor = Annotated[str | None, optional("A", "The agent that acts. Default: $BUS_AGENT.", "--agent")]
Token = Annotated[
    int | None,
    optional(
        "N", f"The token of the lease on the task. Default: ${TOKEN_VARIABLE}.", "--token", min=1
    ),
]
LeaseTime = Annotated[
    str,
    typer.Option(
        "--lease",
        metavar="D",
        help="How long the lease lasts unless it is renewed: seconds, or like 10m, 2h.",
    ),
]
Reason = Annotated[str | None, optional("TEXT", "Why, for people.", "--reason")]

#: How long leases last unless told otherwise.
LEASE = "1h"

_HEADINGS = ("TASK", "STATE", "ATTEMPT", "WORKER", "BRANCH", "FOR", "NOTE")


def token_of(given: int | None) -> int | None:
    """Return the token that an option or the environment gives, or None."""
    if given is not None:
        return given
    text = os.environ.get(TOKEN_VARIABLE)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInput(f"{TOKEN_VARIABLE} must be a number, not {text!a}")
    return int(text)


def wanted_token(given: int | None) -> int:
    """Return the token that an option or the environment gives.

    Raises:
        InvalidInput: neither does.
    """
    token = token_of(given)
    if token is None:
        raise InvalidInput(
            f"give --token N, or set {TOKEN_VARIABLE}: 'bus task spawn' and 'start' print it"
        )
    return token


def print_task(task: Task, *more: str) -> None:
    """Print a task after a step."""
    attempt = f"attempt {task.attempt} of {task.max_attempts}"
    said = f"{task.task}  {task.state}  {attempt}  {task.worker}  {task.branch}"
    output.result(task.record(), f"{said}  token {task.token}", *more)


def print_job(job: TaskJob) -> None:
    """Print the job of a task that has not begun, after a step."""
    output.result(job.record(), f"{job.task}  {job.state}  before it began")


def print_tasks(tasks: Sequence[Task], now_ms: int, jobs: Sequence[TaskJob] = ()) -> int:
    """Print a list of tasks, then of jobs without one; return the exit code: 4 for none."""
    rows: list[tuple[object, ...]] = [
        (
            *(task.task, task.state, task.attempt, task.worker, task.branch),
            age((now_ms - task.changed_at_ms) / 1000),
            note_of(task),
        )
        for task in tasks
    ]
    rows += [
        (
            *(job.task, job.state, job.attempt, job.worker, None),
            age((now_ms - job.since_ms) / 1000),
            job.note,
        )
        for job in jobs
    ]
    records = [*(task.record() for task in tasks), *(job.record() for job in jobs)]
    return output.results(records, rows, _HEADINGS)


def note_reserved(bus: Bus, reserved: Iterable[Reserved]) -> None:
    """Tell of files that tasks change, and that others have reserved: do these still live?"""
    from ..show.reservations import describe, state_of_holder

    for file in reserved:
        conflict = describe(file.conflict, f"; {state_of_holder(bus, file.conflict)}")
        output.note(f"task {file.task} changes a file that is not its own: {conflict}")


def note_of(task: Task) -> str:
    """Return what a line about a task says beside its state."""
    if task.unproven:
        return "unproven: made of messages, and not confirmed"
    if task.blocked is not None:
        return f"asks: {task.blocked.question}"
    if task.commit_id is not None:
        return f"landed as {task.commit_id[:12]}"
    return task.reason or ""
