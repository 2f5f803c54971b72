"""Limits of the messages that wait in a queue or an inbox: list, set, clear."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, By, Place, PlaceOnly
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.options import LimitKind

commands = Commands()
limit = commands.group("limit", help="Limits of waiting messages, which refuse further ones.")

OfQueue = Annotated[str | None, optional("Q", "Of this queue.", "--queue")]
OfInbox = Annotated[
    str | None,
    optional("A", "Of this agent's inbox: messages to it that it has not acknowledged.", "--inbox"),
]


@limit.command("list", example="bus limit list")
def show_list(place: Place = HERE) -> int:
    """List the limits, and how many messages wait there now.

    Exit code 4 when there are none.
    """
    with place.open() as bus:
        records = [asdict(each) for each in bus.limits.list()]
    return output.results(records, headings=("kind", "name", "max waiting", "waiting"))


@limit.command("set", example="bus limit set 100 --queue reviews")
def set_limit(
    count: Annotated[int, typer.Argument(metavar="N", help="How many may wait, at least 1.")],
    queue: OfQueue = None,
    inbox: OfInbox = None,
    by: By = None,
    place: Place = HERE,
) -> int:
    """Limit how many messages may wait in a queue or an inbox.

    Beyond it, publishing is refused with exit code 3, or waits with --wait. Messages that wait
    already stay. Prints nothing without --json.
    """
    kind, name = _place(queue, inbox)
    with place.open() as bus:
        if kind == "queue":
            doer = arguments.doer(by)
            JobControl(Queue.open(bus, name), by=doer).limit(count)
        else:
            bus.limits.set_for_inbox(name, count)
        if output.is_json():
            (record,) = (
                each for each in bus.limits.list() if (each.kind, each.name) == (kind, name)
            )
            output.json_line(asdict(record))
    return 0


@limit.command("clear", example="bus limit clear --inbox worker-1")
def clear(
    queue: OfQueue = None,
    inbox: OfInbox = None,
    by: By = None,
    place: PlaceOnly = HERE,
) -> int:
    """Remove a limit.

    Exit code 4 when there is none.
    """
    kind, name = _place(queue, inbox)
    with place.open() as bus:
        if kind == "queue":
            doer = arguments.doer(by)
            JobControl(Queue.open(bus, name), by=doer).clear_limit()
        else:
            bus.limits.clear(kind, name)
    return 0


def _place(queue: str | None, inbox: str | None) -> tuple[LimitKind, str]:
    if queue is not None and inbox is None:
        return "queue", queue
    if inbox is not None and queue is None:
        return "inbox", inbox
    raise InvalidInput("give either --queue or --inbox; see 'bus limit list'")
