"""Mending of the table of tasks: a row that is lost comes back from the log, as unproven."""

from __future__ import annotations

from ...bus.errors import SegmentMissing
from ...schema.findings import Mended
from ...schema.queries import file_of
from ...schema.sqlite.transactions import without_triggers
from ...tasks.board.difference import difference, store_unproven

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus


def mend_tasks(bus: Bus) -> Iterator[Mended]:
    """Store tasks whose rows are missing or can't be read as their messages tell of them.

    They are unproven: anybody could write the messages. A row that is there stays as it is.

    Args:
        bus: the bus, which no other process may use.
    """
    try:
        lost = difference(bus).lost
    except SegmentMissing:
        return  # the log can't tell
    if not lost:
        return
    with bus.transaction(), without_triggers(file_of(bus).connection):
        store_unproven(bus, lost)
    names = ", ".join(task.task for task in lost)
    what = f"{names} kept as unproven, from messages"
    yield Mended("tasks", what, "who confirms each, by 'bus task confirm'")
