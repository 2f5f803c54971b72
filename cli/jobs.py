"""Jobs: list, show, retry, cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import subscribers  # loads what a command needs of it when it runs
from . import actions
from .commands import Commands
from .job_views import jobs_named, print_job, print_jobs, queues_named
from .options import MAX_SEQ, Directory, Json, OfQueue, User, Verbose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..subscribers import Job, JobControl

commands = Commands()
job = commands.group("job", help="What became of each message in a queue.")

Seq = Annotated[
    int, typer.Argument(metavar="SEQ", min=1, max=MAX_SEQ, help="The seq of the job's message.")
]
Seqs = Annotated[
    list[int],
    typer.Argument(metavar="SEQ...", min=1, max=MAX_SEQ, help="The seqs of the jobs' messages."),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        metavar="S",
        help="Only jobs that are queued, running, succeeded, failed, timed_out, dead or "
        "cancelled; may be repeated.",
        show_default=False,
    ),
]


@job.command("list", example="bus job list --queue reviews --state failed --state dead")
def show_list(
    queue: OfQueue = None,
    state: State = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 50,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """List jobs, the newest first.

    With --state queued alone they come in line: first what may be claimed, in the order of
    claiming, then what waits for its time (delayed), then what waits for others with its dedupe
    key (held). Exit code 4 when there are none.
    """
    states = state or []
    with actions.open_bus(directory, user) as bus:
        queues = queues_named(bus, queue)
        found = [job for each in queues for job in subscribers.list_jobs(each, states, limit)]
        if set(states) != {"queued"}:
            found.sort(key=lambda job: -job.seq)
        count = print_jobs(bus, found[:limit], json)
    return 0 if count else actions.NOTHING


@job.command("show", example="bus job show 17")
def show(
    seq: Seq,
    queue: OfQueue = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Print a job, every attempt at it, and its message.

    An attempt is terminal when it is over, live_active while its worker has it, expired_active
    when the lease has run out and the next worker to look will take the job.
    """
    with actions.open_bus(directory, user) as bus:
        ((found, wanted),) = jobs_named(bus, [seq], queue)
        print_job(bus, found, wanted, json)
    return 0


@job.command("retry", example="bus job retry 17 19 --queue reviews")
def retry(
    seqs: Seqs,
    queue: OfQueue = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Let jobs that did not succeed be tried again, from the first attempt: all named, or none.

    A delayed job need not wait any longer. Prints nothing unless asked for JSON.
    """
    return _act(seqs, queue, json, directory, user, subscribers.JobControl.retry)


@job.command("cancel", example="bus job cancel 17")
def cancel(
    seqs: Seqs,
    queue: OfQueue = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Give jobs up: all named, or none.

    A worker that is at one loses its claim. The messages stay in the log. Prints nothing unless
    asked for JSON.
    """
    return _act(seqs, queue, json, directory, user, subscribers.JobControl.cancel)


def _act(
    seqs: list[int],
    queue: str | None,
    json: bool,
    directory: str | None,
    user: bool,
    act: Callable[[JobControl, int], Job],
) -> int:
    """Do something to jobs in one transaction."""
    with actions.open_bus(directory, user) as bus:
        found = jobs_named(bus, seqs, queue)
        with bus.transaction():
            done = [act(subscribers.JobControl(each), wanted.seq) for each, wanted in found]
        if json:
            print_jobs(bus, done, json=True)
    return 0
