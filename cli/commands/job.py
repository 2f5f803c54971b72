"""Jobs: list, show, retry, cancel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...subscribers.jobs.job_lists import list_jobs
from ...subscribers.queues.dead_letters import DeadLetters
from ...subscribers.queues.job_control import JobControl
from ..definition import Commands, optional
from ..options.common import HERE, By, OfQueue, Place
from ..options.job_choice import Choice, Seq, Seqs, named
from ..show.jobs import code_of_list, jobs_named, print_job, print_jobs, queues_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...subscribers.jobs.jobs import Job
    from ...subscribers.queues.queue import Queue

commands = Commands()
job = commands.group("job", help="Jobs: the messages in a queue, and their attempts.")

#: The states of jobs that ended without success, cancelled ones aside.
_ENDED_BADLY = ("failed", "timed_out", "dead")

#: Words of other systems for the states of jobs.
_OTHER_WORDS = {
    "completed": "succeeded",
    "processed": "succeeded",
    "success": "succeeded",
    "pending": "queued",
    "ready": "queued",
    "skipped": "cancelled",
}

#: How lists call queued jobs that can't be claimed yet.
_WAITING = ("delayed", "held")

State = Annotated[
    list[str] | None,
    optional(
        "S",
        "Only jobs that are queued, running, succeeded, failed, timed_out, dead or "
        "cancelled; may be repeated.",
    ),
]
BadState = Annotated[
    list[str] | None,
    optional("S", "Only jobs that are failed, timed_out or dead; may be repeated.", "--state"),
]


@job.command("list", example="bus job list --queue reviews --state failed --state dead")
def show_list(
    queue: OfQueue = None,
    state: State = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 50,
    place: Place = HERE,
) -> int:
    """List jobs, the newest first.

    With --state queued alone they come in line: first those that may be claimed, in the order of
    claiming, then those that wait for a time (delayed), then those that wait for others with their
    dedupe key (held). Exit code 4 when there are none, 1 when a queue can't take in more of the
    log.

    The column attempts has how many have begun, of how many a job may have. With --json, attempt is
    the one that is next, runs or was the last.
    """
    states = [_OTHER_WORDS.get(each, each) for each in state or ()]
    for each in set(_WAITING).intersection(states):
        raise InvalidInput(f"jobs that are {each} are queued: give --state queued")
    with place.open() as bus:
        queues = queues_named(bus, queue)
        found = [job for each in queues for job in list_jobs(each, states, limit)]
        if set(states) != {"queued"}:
            found.sort(key=lambda job: -job.seq)
        return code_of_list(print_jobs(bus, found[:limit]), queues)


@job.command("show", example="bus job show 17")
def show(seq: Seq, queue: OfQueue = None, place: Place = HERE) -> int:
    """Print a job, its attempts, acts by hand on it, and its message.

    An attempt is terminal when it is over, live_active while its worker has it, expired_active
    when the lease has run out and the next worker to look will take the job.
    """
    with place.open() as bus:
        ((found, wanted),) = jobs_named(bus, [seq], queue)
        print_job(bus, found, wanted)
    return 0


@dataclass(frozen=True, kw_only=True)
class BadlyEnded(Choice):
    """The options of `retry`."""

    state: BadState = None


@job.command("retry", example="bus job retry --queue reviews --state failed --since 2h --dry-run")
def retry(choice: BadlyEnded, place: Place = HERE) -> int:
    """Retry jobs that ended without success, from their first attempt.

    SEQs may also name cancelled and delayed jobs; where one can't be retried, none is. Without SEQs
    all that ended without success and match the options are. Exit code 4 when there are none.
    """
    states = tuple(dict.fromkeys(choice.state or ()))
    if not set(states) <= set(_ENDED_BADLY):
        raise InvalidInput(f"--state must be {', '.join(_ENDED_BADLY[:-1])} or {_ENDED_BADLY[-1]}")
    choice.check("bus job list", is_filtered=bool(states))
    with place.open() as bus:
        if choice.seqs:
            retry_each = partial(_retry, by=choice.doer)
            return choice.act(bus, named(bus, choice.seqs, choice.queue), retry_each, "retried")
        chosen = choice.find(bus, states or _ENDED_BADLY)
        return choice.act(
            bus,
            chosen,
            lambda queue, jobs: DeadLetters(queue, by=choice.doer).requeue(jobs),
            "retried",
        )


@job.command("cancel", example="bus job cancel 17")
def cancel(seqs: Seqs, queue: OfQueue = None, by: By = None, place: Place = HERE) -> int:
    """Cancel jobs: all that are named, or none.

    The worker of a running job loses its claim. The messages stay in the log.
    """
    choice = Choice(seqs=seqs, queue=queue, by=by)
    with place.open() as bus:
        cancel = partial(_cancel, by=choice.doer)
        return choice.act(bus, named(bus, seqs, queue), cancel, "cancelled")


def _retry(queue: Queue, jobs: Iterable[Job], by: str | None) -> Iterator[Job]:
    control = JobControl(queue, by=by)
    for each in jobs:
        yield control.retry(each.seq)


def _cancel(queue: Queue, jobs: Iterable[Job], by: str | None) -> Iterator[Job]:
    control = JobControl(queue, by=by)
    for each in jobs:
        yield control.cancel(each.seq)
