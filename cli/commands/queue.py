"""Queues and their limits: queue, limit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...subscribers.jobs.json_records import queue_record, stats_record
from ...subscribers.jobs.policy import Policy
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.queues.statistics import QueueStats
from ...subscribers.starts import BEGINNING
from .. import arguments
from ..arguments import note_other_form
from ..definition import Commands, optional
from ..options.common import HERE, BusPlace, BusPlaceOnly, By, QueueName, seq_or_word
from ..options.worker import PolicyOptions, make_queue
from ..running.crew_host import watch as go_on_watching
from ..show.confirmation import Yes, confirm
from ..show.jobs import (
    acts_lines,
    code_of_list,
    list_table,
    policy_line,
    print_lines,
    queues_named,
    show_table,
)
from ..show.output import NOTHING, Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.options import LimitKind
    from ...subscribers.queues.queues import QueueInfo
    from ..running.crew_host import Table

commands = Commands()
queue = commands.group(
    "queue",
    help="Queues: work that competing workers share, by type.\n\n"
    "'bus run --type T' makes the queue T, if need be, and works on it. Create one before, to give"
    " it a policy, or to keep its messages out of inboxes from the first on. 'bus publish T' adds a"
    " job; 'bus job list' shows jobs, 'bus dead list' those that failed for good.",
)

Window = Annotated[
    str, typer.Option(metavar="D", help="How far back to look at attempts: like 10m, 2h, 7d.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Repeat, until Ctrl-C.")]
Every = Annotated[str, typer.Option(metavar="D", help="With --watch: how often to look.")]

#: The window unless told otherwise.
_WINDOW = "24h"


@queue.command("list", example="bus queue list --watch")
def list_queues(
    window: Window = _WINDOW,
    watch: Watch = False,
    every: Every = "1s",
    place: BusPlace = HERE,
) -> int:
    """List the queues, and the number of waiting jobs in each.

    Succeeded are the jobs that did so within --window. Oldest is the wait of the oldest job that a
    worker could take. A queue is saturated when that is over a minute while its workers are busy,
    and stuck when its next messages are in a lost part of the archive. Exit code 4 when there are
    none, 1 when one is stuck.
    """
    window_s = arguments.seconds(window, "--window")
    with place.open() as bus:

        def look() -> list[QueueStats]:
            queues = [Queue(bus, info) for info in Queues(bus).list()]
            return [QueueStats.of(queue, window_s=window_s) for queue in queues]

        all_stats = _look(place.output, look, every if watch else None, list_table)
    headings, rows = list_table(all_stats)
    records = [stats_record(stats) for stats in all_stats]
    return place.output.results(records, rows, headings) or _code_of(place.output, all_stats)


@queue.command("show", example="bus queue show reviews --window 1h")
def show(
    name: QueueName,
    window: Window = _WINDOW,
    watch: Watch = False,
    every: Every = "1s",
    place: BusPlace = HERE,
) -> int:
    """Print the statistics and the policy of a queue.

    Waiting jobs, rates and failures within the window, how long jobs waited for a worker and how
    long they ran, its policy, and the acts of people on it (pause, set, purge). The newest 10,000
    attempts count. Exit code 1 when it is stuck.
    """
    from ...subscribers.jobs.outcomes import ManualActs

    window_s = arguments.seconds(window, "--window")
    with place.open() as bus:
        opened = Queue.open(bus, name)

        def look() -> list[QueueStats]:
            return [QueueStats.of(opened, window_s=window_s)]

        (stats,) = all_stats = _look(place.output, look, every if watch else None, show_table)
        acts = ManualActs.of(bus).of_queue(opened.info)
    record = stats_record(stats)
    headings, rows = show_table(all_stats)
    place.output.result(
        record | {"acts": [act.record() for act in acts]},
        *(f"{f'{what}:':<14}{value}" for what, value in (headings, *rows)),
        *acts_lines(acts),
    )
    return _code_of(place.output, all_stats)


@queue.command("create", example="bus queue create reviews --type 'review.*' --max-running 4")
def create(
    name: QueueName,
    type: Annotated[
        str | None,
        optional(
            "P",
            "The pattern of its types; * stands for one part, a last > for the rest. "
            "Default: its name.",
            "--type",
        ),
    ] = None,
    start: Annotated[
        str | None,
        optional("S", "beginning: the whole log; now; or the seq to start at. Default: beginning."),
    ] = None,
    *,
    policy: PolicyOptions,
    place: BusPlace = HERE,
) -> int:
    """Create a queue, unless it exists.

    The rules that are not those of a new queue are printed; 'bus queue show' has all. Exit code 3
    when it exists with another type or another value of a given option. Its beginning never
    changes: a --start that comes too late is noted on stderr.
    """
    rules = policy.rules()
    with place.open() as bus:
        is_there = name in (info.name for info in Queues(bus).list())
        note_other_form(place.output, bus, name if type is None else type)
        opened = make_queue(bus, name, type, rules, seq_or_word(start or BEGINNING))
        first = opened.info.filled_seq + 1
        discarded = [] if is_there else [e for e in bus.archive.discarded() if e.last_seq >= first]
    if is_there and start is not None:
        place.output.note(f"queue {name!r} exists already; --start {start} changed nothing")
    elif is_there:
        place.output.remark(f"queue {name!r} exists already; nothing was changed")
    for part in discarded:
        place.output.note(f"{part}: the queue begins after it")
    _print(place.output, opened.info, without=Policy())
    return 0


@queue.command("set", example="bus queue set reviews --max-running 8 --on-lost dead")
def set_policy(
    name: QueueName, policy: PolicyOptions, by: By = None, place: BusPlace = HERE
) -> int:
    """Change the policy of a queue.

    Rules without an option stay as they are; the defaults below are those of a new queue. The
    change applies from the next claim on; jobs that are in the queue already keep their number of
    attempts.
    """
    from ...subscribers.queues.queue_set import change_policy

    rules = policy.rules()
    if not rules:
        raise InvalidInput("give at least one rule; see 'bus queue set --help'")
    with place.open() as bus:
        info = change_policy(bus, name, by=arguments.actor(by), **rules)
    _print(place.output, info)
    return 0


@queue.command("pause", example="bus queue pause reviews")
def pause(name: QueueName, by: By = None, place: BusPlace = HERE) -> int:
    """Pause a queue: no job is claimed from it.

    Running jobs go on, and new ones wait. Prints nothing without --json.
    """
    with place.open() as bus:
        Queues(bus).pause(name, by=arguments.actor(by))
        place.output.result(queue_record(Queues(bus).get(name)))
    return 0


@queue.command("resume", example="bus queue resume reviews")
def resume(name: QueueName, by: By = None, place: BusPlace = HERE) -> int:
    """Resume a paused queue.

    Prints nothing without --json.
    """
    with place.open() as bus:
        Queues(bus).resume(name, by=arguments.actor(by))
        place.output.result(queue_record(Queues(bus).get(name)))
    return 0


@queue.command("purge", example="bus queue purge reviews")
def purge(
    name: QueueName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print how many jobs wait.")
    ] = False,
    yes: Yes = False,
    by: By = None,
    place: BusPlace = HERE,
) -> int:
    """Cancel the waiting jobs of a queue, and print their number.

    Running jobs go on, and the messages stay in the log. Exit code 4 when none waited, 1 when the
    queue is stuck: then more jobs may come.
    """
    from ...subscribers.queues.job_control import JobControl

    place.output.show_logs()
    with place.open() as bus:
        (opened,) = queues_named(place.output, bus, name)
        control = JobControl(opened, by=arguments.actor(by))
        count = control.waiting()
        if count and not dry_run:
            confirm(f"cancel {counted(count, 'waiting job')} of queue {name!r}", yes)
            count = control.purge()
    key, verb = ("waiting", "would cancel") if dry_run else ("cancelled", "cancelled")
    place.output.result({"queue": name, key: count}, f"{verb} {counted(count, 'job')}")
    return code_of_list(count, [opened])


@queue.command("remove", example="bus queue remove reviews")
def remove(
    name: QueueName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say whether it can be removed.")
    ] = False,
    yes: Yes = False,
    by: By = None,
    place: BusPlace = HERE,
) -> int:
    """Remove a queue in which no job waits or runs.

    Its jobs stay on record, under the name that is printed. Later messages of its types are in
    inboxes. A new queue of this name begins with the whole log, unless --start says otherwise.
    Exit code 3 while jobs wait or run.
    """
    from ...subscribers.queues.queue_set import refuse_live, remove_queue

    with place.open() as bus:
        if dry_run:
            refuse_live(Queue.open(bus, name))
            place.output.result(
                {"queue": name, "dry_run": True}, f"would remove {name}; nothing was changed"
            )
            return 0
        confirm(f"remove queue {name!r}", yes)
        history = remove_queue(bus, name, by=arguments.actor(by))
    place.output.result(
        {"queue": name, "history": history}, f"removed {name}; its history is in {history}"
    )
    return 0


@queue.command("skip", example="bus queue skip reviews")
def skip(name: QueueName, by: By = None, place: BusPlace = HERE) -> int:
    """Resume a stuck queue without the archived messages that are lost.

    It takes in all readable messages, and prints the skipped ones. Messages that are restored
    later do not come into this queue. Exit code 4 when it is not stuck.
    """
    from ...subscribers.queues.job_control import JobControl

    with place.open() as bus:
        opened = Queue.open(bus, name)
        skipped = JobControl(opened, by=arguments.actor(by)).skip()
    for first, last in skipped:
        place.output.result(
            {"queue": name, "first_seq": first, "last_seq": last},
            f"skipped messages {first} to {last}",
        )
    return 0 if skipped else NOTHING


def _look(
    output: Output,
    look: Callable[[], list[QueueStats]],
    every: str | None,
    table: Callable[[list[QueueStats]], Table],
) -> list[QueueStats]:
    """Look once and return the statistics, or repeat and show them where `every` is given."""
    if every is not None:
        go_on_watching(output, look, every, table=table, lines=print_lines)
    return look()


def _code_of(output: Output, all_stats: list[QueueStats]) -> int:
    """Note the stuck queues on stderr, and return the exit code."""
    stuck = [stats.stuck for stats in all_stats if stats.stuck is not None]
    for why in stuck:
        output.note(why)
    return 1 if stuck else 0


def _print(output: Output, info: QueueInfo, *, without: Policy | None = None) -> None:
    """Print a queue and its rules, without those that another policy has."""
    changed = policy_line(info.policy, without=without)
    line = f"{info.name}  {info.pattern}" + (f"  {changed}" if changed else "")
    output.result(queue_record(info), line)


# Limits of the messages that wait in a queue or an inbox: list, set, clear.

limit = commands.group("limit", help="Limits of waiting messages, which refuse further ones.")

OfQueue = Annotated[str | None, optional("Q", "Of this queue.", "--queue")]
OfInbox = Annotated[
    str | None,
    optional("A", "Of this agent's inbox: messages to it that it has not acknowledged.", "--inbox"),
]


@limit.command("list", example="bus limit list")
def show_list(place: BusPlace = HERE) -> int:
    """List the limits, and how many messages wait there now.

    Exit code 4 when there are none.
    """
    with place.open() as bus:
        records = [asdict(entry) for entry in bus.limits.list()]
    return place.output.results(records, headings=("kind", "name", "max waiting", "waiting"))


@limit.command("set", example="bus limit set 100 --queue reviews")
def set_limit(
    count: Annotated[int, typer.Argument(metavar="N", help="How many may wait, at least 1.")],
    queue: OfQueue = None,
    inbox: OfInbox = None,
    by: By = None,
    place: BusPlace = HERE,
) -> int:
    """Limit how many messages may wait in a queue or an inbox.

    Beyond it, publishing is refused with exit code 3, or waits with --wait. Messages that wait
    already stay. Prints nothing without --json.
    """
    kind, name = _place(queue, inbox)
    with place.open() as bus:
        if kind == "queue":
            actor = arguments.actor(by)
            JobControl(Queue.open(bus, name), by=actor).limit(count)
        else:
            bus.limits.set_for_inbox(name, count)
        if place.output.is_json:
            (record,) = (
                entry for entry in bus.limits.list() if (entry.kind, entry.name) == (kind, name)
            )
            place.output.json_line(asdict(record))
    return 0


@limit.command("clear", example="bus limit clear --inbox worker-1")
def clear(
    queue: OfQueue = None,
    inbox: OfInbox = None,
    by: By = None,
    place: BusPlaceOnly = HERE,
) -> int:
    """Remove a limit.

    Exit code 4 when there is none.
    """
    kind, name = _place(queue, inbox)
    with place.open() as bus:
        if kind == "queue":
            actor = arguments.actor(by)
            JobControl(Queue.open(bus, name), by=actor).clear_limit()
        else:
            bus.limits.clear(kind, name)
    return 0


def _place(queue: str | None, inbox: str | None) -> tuple[LimitKind, str]:
    if queue is not None and inbox is None:
        return "queue", queue
    if inbox is not None and queue is None:
        return "inbox", inbox
    raise InvalidInput("give either --queue or --inbox; see 'bus limit list'")
