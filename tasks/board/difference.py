"""The table of tasks against what the log says: a row that is there is never made of messages.

Anybody can publish a message of any form. So the log only shows: rows that are lost come back from
it as unproven, until a person confirms each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...bus.log.imported import Imports
from ..records.task_table import TaskTable
from ..steps.fold import fold
from ..steps.messages import STATE_CHANGE
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
        lost: the tasks that the log tells of, and whose rows are missing or can't be read, as the
            messages make them: unproven.
        unknown: the names of rows of which the log lacks the beginning, or the newest messages.
        differs: the names of rows that say something else than the messages.
        foreign: the messages that are no step of a task: its row stands without them.
    """

    count: int
    lost: tuple[Task, ...]
    unknown: tuple[str, ...]
    differs: tuple[str, ...]
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
    lost, unknown, differs = [], [], []
    foreign = {message.seq: message for message in own.foreign}
    for name in sorted({*names, *own.tasks}):
        stored = _stored(table, name)
        sums = [each.tasks[name] for each in (own, whole) if name in each.tasks]
        if stored is None:
            lost += [replace(task, unproven=True) for task in sums[:1]]
            unknown += [] if sums else [name]
        elif not any(is_same(stored, task) for task in sums):
            if (contrary := _contrary(stored, messages)) is not None:
                foreign |= {message.seq: message for message in contrary}
            elif not sums or sums[-1].last_seq < stored.last_seq <= newest:
                unknown.append(name)
            else:
                differs.append(name)
    in_order = tuple(foreign[seq] for seq in sorted(foreign))
    return Difference(len(names), tuple(lost), tuple(unknown), tuple(differs), in_order)


def is_same(stored: Task, told: Task) -> bool:
    """Whether a row says what the messages of its task say, but for what none of them tells."""
    as_told = replace(told, cleaned_at_ms=stored.cleaned_at_ms, unproven=stored.unproven)
    return as_told == stored


def _contrary(stored: Task, messages: list[Message]) -> list[Message] | None:
    """Return the messages about a task without which the log says what its row says.

    Those after the newest step are no steps; of those before, one may be forged. None: it says
    something else without any one of them, and nobody can tell which are the steps.
    """
    own = [each for each in messages if task_of(each) == stored.task]
    later = [each for each in own if each.seq > stored.last_seq and each.type == STATE_CHANGE]
    rest = [each for each in own if each not in later]
    for forged in (None, *rest[1:]):
        steps = fold(each for each in rest if each is not forged)
        told = steps.tasks.get(stored.task)
        if told is not None and is_same(stored, told):
            return [*steps.foreign, *([] if forged is None else [forged]), *later]
    return None


def task_of(message: Message) -> object:
    """Return the task that a message says it is about; None: it says none."""
    return message.payload.get("task") if isinstance(message.payload, dict) else None


def _without_imports(bus: Bus, messages: list[Message]) -> list[Message]:
    spans = Imports.of(bus).spans()
    return [
        each for each in messages if not any(first <= each.seq <= last for first, last in spans)
    ]


def store_unproven(bus: Bus, lost: tuple[Task, ...]) -> None:
    """Store tasks whose rows are lost as their messages tell of them, for people to confirm.

    The triggers of the table refuse that: it is for repairs, which switch them off.
    """
    table = TaskTable.of(bus)
    for task in lost:
        table.put(replace(task, unproven=True))


def _stored(table: TaskTable, name: str) -> Task | None:
    try:
        return table.get(name)
    except _NONSENSE:
        return None
