"""Dead letters: list, show, requeue, drop."""

from __future__ import annotations

from typing import Annotated

import typer

from ...subscribers.queues.dead_letters import DeadLetters
from ..definition import Commands
from ..options.common import HERE, OfQueue, Place
from ..options.job_choice import Choice, Filter, Seq, named
from ..show.confirmation import Yes, confirm
from ..show.jobs import code_of_list, jobs_named, print_job, print_jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ..options.job_choice import Chosen

commands = Commands()
dead = commands.group("dead", help="Dead letters: jobs that used up their attempts.")

All = Annotated[bool, typer.Option("--all", help="All dead letters of the bus.")]

#: The state that they are in, and the command that shows them.
_DEAD, _LIST = "dead", "bus dead list"


@dead.command("list", example="bus dead list --queue reviews --since 2d")
def show_list(wanted: Filter, place: Place = HERE) -> int:
    """List dead letters and why they failed, by queue.

    With --since only those that died since then. Exit code 4 when there are none, 1 when a queue
    can't take in more of the log.
    """
    with place.open() as bus:
        found = list(wanted.find(bus, (_DEAD,)))
        count = print_jobs(bus, (job for _, jobs in found for job in jobs))
        return code_of_list(count, (queue for queue, _ in found))


@dead.command("show", example="bus dead show 17 --json")
def show(seq: Seq, queue: OfQueue = None, place: Place = HERE) -> int:
    """Print a dead letter, every attempt at it, and its message.

    Exit code 4 when the job is not dead.
    """
    with place.open() as bus:
        ((found, wanted),) = jobs_named(bus, [seq], queue, _DEAD)
        print_job(bus, found, wanted)
    return 0


@dead.command("requeue", example="bus dead requeue --queue reviews --since 2h --dry-run")
def requeue(choice: Choice, everything: All = False, place: Place = HERE) -> int:
    """Requeue dead letters, from their first attempt.

    Name SEQs (where one can't be, none is), or give --queue, --type, --since or --all. Exit code 4
    when there are none.
    """
    choice.check(_LIST, is_all=everything)
    with place.open() as bus:
        return choice.act(
            bus,
            _chosen(bus, choice),
            lambda queue, jobs: DeadLetters(queue, by=choice.doer).requeue(jobs),
            "requeued",
        )


@dead.command("drop", example="bus dead drop 17 19")
def drop(choice: Choice, everything: All = False, yes: Yes = False, place: Place = HERE) -> int:
    """Drop dead letters; they end as cancelled, and stay on record.

    Name SEQs (where one can't be, none is), or give --queue, --type, --since or --all. Exit code 4
    when there are none.
    """
    choice.check(_LIST, is_all=everything)
    with place.open() as bus:
        confirm("drop these dead letters", yes or choice.dry_run)
        return choice.act(
            bus,
            _chosen(bus, choice),
            lambda queue, jobs: DeadLetters(queue, by=choice.doer).drop(jobs),
            "dropped",
        )


def _chosen(bus: Bus, choice: Choice) -> Chosen:
    if choice.seqs:
        return named(bus, choice.seqs, choice.queue, _DEAD)
    return choice.find(bus, (_DEAD,))
