"""Dead letters: list, show, requeue, drop."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import subscribers  # loads what a command needs of it when it runs
from ..schema import InvalidInput, TypePattern
from . import actions, options, output
from .commands import Commands
from .job_views import jobs_named, print_job, print_jobs, queues_named
from .jobs import Seq
from .messages import since_time
from .options import MAX_SEQ, Directory, Json, OfQueue, Since, User, Verbose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..bus import Bus
    from ..subscribers import DeadLetters, Job

commands = Commands()
dead = commands.group("dead", help="Jobs that used up their attempts, and wait for you.")

Seqs = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[SEQ]...", min=1, max=MAX_SEQ, help="The jobs' seqs.", show_default=False
    ),
]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the bus.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only list those that are meant; change nothing.")
]


@dead.command("list", example="bus dead list --queue reviews --since 2d")
def show_list(
    queue: OfQueue = None,
    type: options.TypePattern = None,
    since: Since = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """List dead letters and why they failed, by queue.

    With --since only those that died since then. Exit code 4 when there are none.
    """
    with actions.open_bus(directory, user) as bus:
        found = (job for _, jobs in _found(bus, queue, type, since) for job in jobs)
        count = print_jobs(bus, found, json)
    return 0 if count else actions.NOTHING


@dead.command("show", example="bus dead show 17 --json")
def show(
    seq: Seq,
    queue: OfQueue = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Print a dead letter, every attempt at it, and its message.

    Exit code 4 when it is none.
    """
    with actions.open_bus(directory, user) as bus:
        ((found, wanted),) = jobs_named(bus, [seq], queue, state="dead")
        print_job(bus, found, wanted, json)
    return 0


@dead.command("requeue", example="bus dead requeue --queue reviews --since 2h --dry-run")
def requeue(
    seqs: Seqs = None,
    queue: OfQueue = None,
    type: options.TypePattern = None,
    since: Since = None,
    everything: All = False,
    dry_run: DryRun = False,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Let dead letters be tried again, from the first attempt.

    Those named, all or none of them; or without SEQs all that fit the options. Exit code 4 when
    there are none.
    """
    _check_choice(seqs, queue, type, since, everything)
    with actions.open_bus(directory, user) as bus:
        chosen = _chosen(bus, seqs, queue, type, since)
        return _act(bus, chosen, subscribers.DeadLetters.requeue, "requeued", dry_run, json)


@dead.command("drop", example="bus dead drop 17 19")
def drop(
    seqs: Seqs = None,
    queue: OfQueue = None,
    type: options.TypePattern = None,
    since: Since = None,
    everything: All = False,
    dry_run: DryRun = False,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Give dead letters up; they end as cancelled, and stay on record.

    Those named, all or none of them; or without SEQs all that fit the options. Exit code 4 when
    there are none.
    """
    _check_choice(seqs, queue, type, since, everything)
    with actions.open_bus(directory, user) as bus:
        chosen = _chosen(bus, seqs, queue, type, since)
        return _act(bus, chosen, subscribers.DeadLetters.drop, "dropped", dry_run, json)


def _check_choice(
    seqs: list[int] | None,
    queue: str | None,
    type: str | None,
    since: str | None,
    everything: bool,
) -> None:
    """Refuse what does not say clearly which are meant. No error offers what means all of them."""
    filtered = type is not None or since is not None
    if seqs and (filtered or everything):
        raise InvalidInput("give SEQs, or options that choose, not both; see 'bus dead list'")
    if not seqs and (filtered or queue is not None) == everything:
        raise InvalidInput(
            "say which: by SEQs, or by --queue, --type, --since; see 'bus dead list'"
        )


def _found(
    bus: Bus, queue: str | None, type: str | None, since: str | None
) -> Iterator[tuple[DeadLetters, Iterator[Job]]]:
    """Yield each queue's dead letters that fit the options."""
    pattern = None if type is None else TypePattern(type)
    since_ms = None if since is None else since_time(since, bus.database.now_ms())
    for each in queues_named(bus, queue):
        letters = subscribers.DeadLetters(each)
        yield letters, letters.find(type=pattern, since_ms=since_ms)


def _chosen(
    bus: Bus, seqs: list[int] | None, queue: str | None, type: str | None, since: str | None
) -> Iterable[tuple[DeadLetters, Iterable[Job]]]:
    if not seqs:
        return _found(bus, queue, type, since)
    named = jobs_named(bus, seqs, queue, state="dead")
    return [(subscribers.DeadLetters(each), [job]) for each, job in named]


def _act(
    bus: Bus,
    chosen: Iterable[tuple[DeadLetters, Iterable[Job]]],
    act: Callable[[DeadLetters, Iterable[Job]], Iterator[Job]],
    done: str,
    dry_run: bool,
    json: bool,
) -> int:
    if dry_run:
        count = print_jobs(bus, (job for _, jobs in chosen for job in jobs), json)
        output.note(f"{output.counted(count, 'job')} would be {done}; nothing was changed")
        return 0 if count else actions.NOTHING
    if isinstance(chosen, list):  # named one by one: all of them, or none
        with bus.transaction():
            changed = [job for letters, jobs in chosen for job in act(letters, jobs)]
    else:
        changed = [job for letters, jobs in chosen for job in act(letters, jobs)]
    if json:
        print_jobs(bus, changed, json=True)
    else:
        output.line(f"{done} {output.counted(len(changed), 'job')}")
    return 0 if changed else actions.NOTHING
