"""Jobs: run, which works on them; job, and dead for dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...subscribers.queues.job_control import DeadLetters, JobControl
from ...subscribers.views import list_jobs
from ..arguments import note_other_form
from ..definition import Commands, optional
from ..options.common import HERE, BusPlace, BusPlaceOnly, By, OfQueue
from ..options.job_choice import EndedJobFilter, JobChoice, Seq, Seqs, with_queues
from ..options.worker import NewQueueOptions, WorkerOptions
from ..running.worker_host import WorkerHost, check_command
from ..show.confirmation import Yes, confirm
from ..show.jobs import code_of_list, jobs_named, print_job, print_jobs, queues_named
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.local_bus import LocalBus
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.queues.queue import Queue
    from ..options.job_choice import ChosenJobs

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

#: The words of lists for queued jobs that can't be claimed yet.
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


def _states(words: list[str] | None) -> list[str]:
    """Return the states of jobs that words name, in any case and in words of other systems."""
    plain = [word.lower().replace("-", "_") for word in words or ()]
    return [_OTHER_WORDS.get(word, word) for word in plain]


@job.command("list", example="bus job list --queue reviews --state failed --state dead")
def show_list(
    queue: OfQueue = None,
    state: State = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 50,
    place: BusPlace = HERE,
) -> int:
    """List jobs, the newest first.

    With --state queued alone they come in line: first those that may be claimed, in the order of
    claiming, then those that wait for a time (delayed), then those that wait for others with their
    dedupe key (held). Exit code 4 when there are none, 1 when a queue can't take in more of the
    log.

    The column attempts has how many have begun, of how many a job may have. With --json, attempt is
    the one that is next, runs or was the last.
    """
    states = _states(state)
    for word in set(_WAITING).intersection(states):
        raise InvalidInput(f"jobs that are {word} are queued: give --state queued")
    with place.open() as bus:
        queues = queues_named(place.output, bus, queue)
        jobs = [job for opened in queues for job in list_jobs(opened, states, limit)]
        if set(states) != {"queued"}:
            jobs.sort(key=lambda job: -job.seq)
        return code_of_list(print_jobs(place.output, bus, jobs[:limit]), queues)


@job.command("show", example="bus job show 17")
def show(seq: Seq, queue: OfQueue = None, place: BusPlace = HERE) -> int:
    """Print a job, its attempts, acts by hand on it, and its message.

    An attempt is terminal when it is over, live_active while its worker has it, expired_active
    when the lease has run out and the next worker to look will take the job.
    """
    with place.open() as bus:
        ((opened, named_job),) = jobs_named(place.output, bus, [seq], queue)
        print_job(place.output, bus, opened, named_job)
    return 0


@dataclass(frozen=True, kw_only=True)
class RetryChoice(JobChoice):
    """The options of `retry`."""

    state: BadState = None


@job.command("retry", example="bus job retry --queue reviews --state failed --since 2h --dry-run")
def retry(choice: RetryChoice, place: BusPlace = HERE) -> int:
    """Retry jobs that ended without success, from their first attempt.

    SEQs may also name cancelled and delayed jobs; where one can't be retried, none is. Without SEQs
    all that ended without success and match the options are. Exit code 4 when there are none.
    """
    states = tuple(dict.fromkeys(_states(choice.state)))
    if not set(states) <= set(_ENDED_BADLY):
        raise InvalidInput(f"--state must be {', '.join(_ENDED_BADLY[:-1])} or {_ENDED_BADLY[-1]}")
    choice.check("bus job list", is_filtered=bool(states))
    with place.open() as bus:
        if choice.seqs:
            retry_each = partial(_retry, by=choice.actor)
            return choice.act(
                place.output,
                bus,
                with_queues(place.output, bus, choice.seqs, choice.queue),
                retry_each,
                "retried",
            )
        chosen = choice.find(place.output, bus, states or _ENDED_BADLY)
        return choice.act(
            place.output,
            bus,
            chosen,
            lambda queue, jobs: DeadLetters(queue, by=choice.actor).requeue(jobs),
            "retried",
        )


@job.command("cancel", example="bus job cancel 17")
def cancel(seqs: Seqs, queue: OfQueue = None, by: By = None, place: BusPlace = HERE) -> int:
    """Cancel jobs: all that are named, or none.

    The worker of a running job loses its claim. The messages stay in the log.
    """
    choice = JobChoice(seqs=seqs, queue=queue, by=by)
    with place.open() as bus:
        cancel = partial(_cancel, by=choice.actor)
        return choice.act(
            place.output, bus, with_queues(place.output, bus, seqs, queue), cancel, "cancelled"
        )


def _retry(queue: Queue, jobs: Iterable[Job], by: str | None) -> Iterator[Job]:
    control = JobControl(queue, by=by)
    for job in jobs:
        yield control.retry(job.seq)


def _cancel(queue: Queue, jobs: Iterable[Job], by: str | None) -> Iterator[Job]:
    control = JobControl(queue, by=by)
    for job in jobs:
        yield control.cancel(job.seq)


# Dead letters: list, show, requeue, drop.

dead = commands.group("dead", help="Dead letters: jobs that used up their attempts.")

All = Annotated[bool, typer.Option("--all", help="All dead letters of the bus.")]

#: The state of dead letters, and the command that lists them.
_DEAD, _LIST = "dead", "bus dead list"


@dead.command("list", example="bus dead list --queue reviews --since 2d")
def list_dead(filter: EndedJobFilter, place: BusPlace = HERE) -> int:
    """List dead letters and why they failed, by queue.

    With --since only those that died since then. Exit code 4 when there are none, 1 when a queue
    can't take in more of the log.
    """
    with place.open() as bus:
        by_queue = list(filter.find(place.output, bus, (_DEAD,)))
        count = print_jobs(place.output, bus, (job for _, jobs in by_queue for job in jobs))
        return code_of_list(count, (queue for queue, _ in by_queue))


@dead.command("show", example="bus dead show 17 --json")
def show_dead(seq: Seq, queue: OfQueue = None, place: BusPlace = HERE) -> int:
    """Print a dead letter, every attempt at it, and its message.

    Exit code 4 when the job is not dead.
    """
    with place.open() as bus:
        ((opened, job),) = jobs_named(place.output, bus, [seq], queue, _DEAD)
        print_job(place.output, bus, opened, job)
    return 0


@dead.command("requeue", example="bus dead requeue --queue reviews --since 2h --dry-run")
def requeue(choice: JobChoice, everything: All = False, place: BusPlace = HERE) -> int:
    """Requeue dead letters, from their first attempt.

    Name SEQs (where one can't be, none is), or give --queue, --type, --since or --all. Exit code 4
    when there are none.
    """
    choice.check(_LIST, is_all=everything)
    with place.open() as bus:
        return choice.act(
            place.output,
            bus,
            _chosen(place.output, bus, choice),
            lambda queue, jobs: DeadLetters(queue, by=choice.actor).requeue(jobs),
            "requeued",
        )


@dead.command("drop", example="bus dead drop 17 19")
def drop(
    choice: JobChoice, everything: All = False, yes: Yes = False, place: BusPlace = HERE
) -> int:
    """Drop dead letters; they end as cancelled, and stay on record.

    Name SEQs (where one can't be, none is), or give --queue, --type, --since or --all. Exit code 4
    when there are none.
    """
    choice.check(_LIST, is_all=everything)
    with place.open() as bus:
        confirm("drop these dead letters", yes or choice.dry_run)
        return choice.act(
            place.output,
            bus,
            _chosen(place.output, bus, choice),
            lambda queue, jobs: DeadLetters(queue, by=choice.actor).drop(jobs),
            "dropped",
        )


def _chosen(output: Output, bus: LocalBus, choice: JobChoice) -> ChosenJobs:
    if choice.seqs:
        return with_queues(output, bus, choice.seqs, choice.queue, _DEAD)
    return choice.find(output, bus, (_DEAD,))


# `bus run`: a worker that runs a command.

Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="The command to run for each message.")
]


@commands.command(
    "run", example="bus run --type review.request --concurrency 4 -- ./review --strict"
)
def run(
    command: Command,
    options: WorkerOptions,
    policy: NewQueueOptions,
    place: BusPlaceOnly = HERE,
) -> int:
    """Work on the messages of a type: run a command for each.

    Each message goes to one worker; start as many as are to work side by side. One that is killed
    loses nothing: its message goes to another. --drain ends when nothing is left.

    With the raw contract CMD reads the body (text as it is, else JSON) from stdin and prints the
    reply to stdout. Exit code 0 is success; any other is failure, and stderr, or else stdout, is
    the reply. Code 75 asks for a retry, 78 forbids one. A failure is the reply and not retried,
    unless the queue's --retry is failures; with the json contract it is retried, 4 attempts in all.

    The worker looks at the bus when it is woken, and every 250 ms anyway. It takes jobs until none
    is left, then waits again. It extends its claims, ends CMD and all its children at the timeout
    (SIGTERM, 5 s, SIGKILL), and keeps up to 10 MiB of stdout and 64 KiB of stderr.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_QUEUE, BUS_ATTEMPT, BUS_MAX_ATTEMPTS, BUS_CLAIM_TOKEN,
    BUS_MESSAGE_ID, BUS_MESSAGE_SEQ, BUS_MESSAGE_TYPE, BUS_FROM, BUS_CORRELATION_ID, BUS_META_...
    for each entry of the header meta, and TRACEPARENT; BUS_META_... and TRACEPARENT of the worker's
    own environment are not passed on. SIGTERM and Ctrl-C end the worker after its running jobs; a
    second one, or SIGQUIT, kills and releases those too. On Linux, CMD and all its children end as
    well when the worker is killed.

    A missing CMD is refused with exit code 2, before anything is claimed. On a terminal, or with
    -v, the worker prints its queue and its command on stderr.
    """
    from ...workers.processes.supervisors import Supervisors

    rules = policy.rules()
    check_command(command[0])
    with place.open(lives_long=True) as bus, Supervisors() as supervisors:
        if options.type is not None:
            note_other_form(place.output, bus, options.type)
        queue = options.open_queue(bus, rules)
        worker = options.worker(bus, queue)
        work = options.work(bus, command, worker.group, supervisors)
        place.output.remark(
            f"working on queue {queue.name!r}, which takes in {queue.info.pattern}, with"
            f" {command[0]}: {options.contract} contract, {options.concurrency} at a time;"
            " Ctrl-C ends it"
        )
        if queue.info.paused_at_ms is not None:
            name = queue.name
            place.output.note(
                f"queue {name!r} is paused: no job begins before 'bus queue resume {name}'"
            )
        return WorkerHost(place.output, worker).run(work, once=options.once, drain=options.drain)
