"""The table of tasks against the sum of their messages, from which it can be made again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..records.task_table import TaskTable
from .past import fold_at

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

    Raises:
        SegmentMissing: a part of the archive can't be read.
    """
    folded, table, newest = fold_at(bus), TaskTable.of(bus), bus.log.newest_seq()
    names = table.names()
    wrong, unknown = [], []
    for name in sorted({*names, *folded.tasks}):
        summed, stored = folded.tasks.get(name), _stored(table, name)
        if summed is None:
            unknown.append(name)
            continue
        if stored is not None:
            summed = replace(summed, cleaned_at_ms=stored.cleaned_at_ms)
        if summed == stored:
            continue
        if stored is not None and summed.last_seq < stored.last_seq <= newest:
            unknown.append(name)
        else:
            wrong.append(summed)
    return Difference(len(names), tuple(wrong), tuple(unknown), tuple(folded.foreign))


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
