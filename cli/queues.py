"""Queues: list, show, create, set, pause, resume, purge, skip."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import subscribers  # loads what a command needs of it when it runs
from ..schema import InvalidInput
from . import actions, output
from .commands import Commands
from .job_views import code_of_list, queues_named
from .options import HERE, By, Json, Place, QueueName
from .policy_options import PolicyOptions, make_queue
from .queue_views import (
    list_table,
    policy_line,
    print_acts,
    print_json_lines,
    print_lines,
    show_table,
)
from .watching import watch as go_on_watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..bus import Bus
    from ..subscribers import QueueInfo, QueueStats
    from .watching import Table

commands = Commands()
queue = commands.group("queue", help="Work that competing workers take, by type.")

Window = Annotated[
    str, typer.Option(metavar="D", help="How far back to look at attempts: like 10m, 2h, 7d.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Go on showing it, until Ctrl-C.")]
Every = Annotated[str, typer.Option(metavar="D", help="With --watch: how often to look.")]

#: The window unless told otherwise.
_WINDOW = "24h"


@queue.command("list", example="bus queue list --watch")
def list_queues(
    window: Window = _WINDOW,
    watch: Watch = False,
    every: Every = "1s",
    json: Json = False,
    place: Place = HERE,
) -> int:
    """List the queues, and how much waits in each.

    Oldest is how long the oldest job waits that a worker could take. A queue is saturated when
    that is over a minute while its workers are busy, and stuck when what it takes in next is in a
    part of the archive that is lost. Exit code 4 when there are none, 1 when one is stuck.
    """
    window_s = actions.seconds(window, "--window")
    with place.open() as bus:

        def look() -> list[QueueStats]:
            queues = [subscribers.Queue(bus, info) for info in subscribers.Queues(bus).list()]
            return [subscribers.QueueStats.of(each, window_s=window_s) for each in queues]

        found = _look(look, every if watch else None, list_table, json)
    if json:
        print_json_lines(found)
    elif found:
        output.table(*list_table(found))
    return _code_of(found) if found else actions.NOTHING


@queue.command("show", example="bus queue show reviews --window 1h")
def show(
    name: QueueName,
    window: Window = _WINDOW,
    watch: Watch = False,
    every: Every = "1s",
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Print how a queue is doing.

    What waits, how fast and how well its work was done within the window, how long jobs waited
    for a worker and how long they ran, its policy, and who has paused, changed or purged it. The
    newest 10,000 attempts count. Exit code 1 when it is stuck.
    """
    window_s = actions.seconds(window, "--window")
    with place.open() as bus:
        opened = subscribers.Queue.open(bus, name)

        def look() -> list[QueueStats]:
            return [subscribers.QueueStats.of(opened, window_s=window_s)]

        (stats,) = found = _look(look, every if watch else None, show_table, json)
        acts = subscribers.Acts(bus.database).of_queue(opened.info)
    if json:
        record = subscribers.stats_record(stats)
        output.json_line(record | {"acts": [act.record() for act in acts]})
    else:
        headings, rows = show_table(found)
        for what, value in (headings, *rows):
            output.line(f"{f'{what}:':<14}{value}")
        print_acts(acts)
    return _code_of(found)


@queue.command("create", example="bus queue create reviews --type 'review.*' --max-running 4")
def create(
    name: QueueName,
    type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="P",
            help="The types that it takes in; * stands for one part, a last > for the rest. "
            "Default: its name.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="beginning: all that the log holds; now; or the seq to start at. Default: "
            "beginning.",
            show_default=False,
        ),
    ] = None,
    *,
    policy: PolicyOptions,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Make a queue, unless it is there.

    Exit code 3 when it is there with another type or another value of an option given. Where it
    began stays as it is: a --start that comes too late is told on stderr.
    """
    rules = policy.rules()
    with place.open() as bus:
        is_there = name in (info.name for info in subscribers.Queues(bus).list())
        made = make_queue(bus, name, type, rules, _start(start))
    if is_there and start is not None:
        output.note(f"queue {name!r} was there already; --start {start} changed nothing")
    _print(made.info, json)
    return 0


@queue.command("set", example="bus queue set reviews --max-running 8 --on-lost dead")
def set_policy(
    name: QueueName,
    policy: PolicyOptions,
    by: By = None,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Change the policy of a queue.

    Options not given stay as they are. It holds from the next claim on; jobs that are in the
    queue already keep their number of attempts.
    """
    rules = policy.rules()
    if not rules:
        raise InvalidInput("give at least one rule; see 'bus queue set --help'")
    with place.open() as bus:
        info = subscribers.Queues(bus).set_policy(name, by=actions.doer(by), **rules)
    _print(info, json)
    return 0


@queue.command("pause", example="bus queue pause reviews")
def pause(
    name: QueueName,
    by: By = None,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Let nothing more be claimed from a queue.

    What runs goes on, and what comes waits. Prints nothing unless asked for JSON.
    """
    with place.open() as bus:
        subscribers.Queues(bus).pause(name, by=actions.doer(by))
        _print_if_json(bus, name, json)
    return 0


@queue.command("resume", example="bus queue resume reviews")
def resume(
    name: QueueName,
    by: By = None,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Let a paused queue be claimed from again.

    Prints nothing unless asked for JSON.
    """
    with place.open() as bus:
        subscribers.Queues(bus).resume(name, by=actions.doer(by))
        _print_if_json(bus, name, json)
    return 0


@queue.command("purge", example="bus queue purge reviews")
def purge(
    name: QueueName,
    by: By = None,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Cancel all that waits in a queue, and print how much that was.

    What runs goes on, and the messages stay in the log. Exit code 4 when nothing waited, 1 when
    the queue is stuck: then more may come.
    """
    output.show_logs()
    with place.open() as bus:
        (found,) = queues_named(bus, name)
        count = subscribers.JobControl(found, by=actions.doer(by)).purge()
    if json:
        output.json_line({"queue": name, "cancelled": count})
    else:
        output.line(f"cancelled {output.counted(count, 'job')}")
    return code_of_list(count, [found])


@queue.command("skip", example="bus queue skip reviews")
def skip(
    name: QueueName,
    by: By = None,
    json: Json = False,
    place: Place = HERE,
) -> int:
    """Let a stuck queue go on without messages that are lost with a part of the archive.

    It takes in all that can be read, and prints what it left out. What is put back later does not
    come into this queue any more. Exit code 4 when it is not stuck.
    """
    with place.open() as bus:
        found = subscribers.Queue.open(bus, name)
        skipped = subscribers.JobControl(found, by=actions.doer(by)).skip()
    for first, last in skipped:
        if json:
            output.json_line({"queue": name, "first_seq": first, "last_seq": last})
        else:
            output.line(f"skipped messages {first} to {last}")
    return 0 if skipped else actions.NOTHING


def _look(
    look: Callable[[], list[QueueStats]],
    every: str | None,
    table: Callable[[list[QueueStats]], Table],
    json: bool,
) -> list[QueueStats]:
    """Look once, and return how things stand; or go on showing it, when told how often to look."""
    if every is not None:
        go_on_watching(look, every, table=table, lines=print_json_lines if json else print_lines)
    return look()


def _code_of(found: list[QueueStats]) -> int:
    """Say what keeps queues from taking in more, and return the exit code for that."""
    stuck = [stats.stuck for stats in found if stats.stuck is not None]
    for why in stuck:
        output.note(why)
    return 1 if stuck else 0


def _start(text: str | None) -> str | int:
    if text is None:
        return "beginning"
    is_seq = text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_seq else text


def _print_if_json(bus: Bus, name: str, json: bool) -> None:
    if json:
        _print(subscribers.Queues(bus).get(name), json)


def _print(info: QueueInfo, json: bool) -> None:
    if json:
        output.json_line(subscribers.queue_record(info))
    else:
        output.line(f"{info.name}  {info.pattern}  {policy_line(info)}")
