"""The table of tasks against the sum of their messages, from which it can be made again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...bus.log.imported import Imports
from ..records.task_table import TaskTable
from ..steps.fold import fold
from .past import messages_of_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..records.task import Task

#: The errors of reading a row that no program of ours has stored.
_NONSENSE = (LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the table and the messages.

    Attributes:
        count: how many tasks there are.
        wrong: the tasks whose rows are missing or say something else, as the messages make them.
        unknown: the names of rows of which the log lacks the beginning, or the newest messages.
        foreign: the messages that are no step of a task.
    """

    count: int
    wrong: tuple[Task, ...]
    unknown: tuple[str, ...]
    foreign: tuple[Message, ...]


def difference(bus: Bus) -> Difference:
    """Compare the whole table with all messages.

    The tasks of another bus, whose log was imported, have no rows here, and are left out.

    Raises:
        SegmentMissing: a part of the archive can't be read.
    """
    messages = list(messages_of_tasks(bus))
    own, whole = fold(_without_imports(bus, messages)), fold(messages)
    table, newest = TaskTable.of(bus), bus.log.newest_seq()
    names = table.names()
    wrong, unknown = [], []
    for name in sorted({*names, *own.tasks}):
        stored = _stored(table, name)
        sums = [each.tasks[name] for each in (own, whole) if name in each.tasks]
        if stored is not None:
            sums = [replace(task, cleaned_at_ms=stored.cleaned_at_ms) for task in sums]
        if stored in sums:
            continue
        if not sums or (stored is not None and sums[-1].last_seq < stored.last_seq <= newest):
            unknown.append(name)
        else:
            wrong.append(sums[0])
    return Difference(len(names), tuple(wrong), tuple(unknown), tuple(own.foreign))


def _without_imports(bus: Bus, messages: list[Message]) -> list[Message]:
    spans = Imports.of(bus).spans()
    return [
        each for each in messages if not any(first <= each.seq <= last for first, last in spans)
    ]


def store_again(bus: Bus, tasks: tuple[Task, ...]) -> None:
    """Store tasks as their messages make them, over the rows that are there.

    The triggers of the table refuse that: it is for repairs, which switch them off.
    """
    table = TaskTable.of(bus)
    for task in tasks:
        table.put(task)


def _stored(table: TaskTable, name: str) -> Task | None:
    try:
        return table.get(name)
    except _NONSENSE:
        return None
