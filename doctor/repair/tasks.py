"""Mending of the table of tasks: a row that is wrong is made again from the log."""

from __future__ import annotations

from ...bus.errors import SegmentMissing
from ...schema.findings import Mended
from ...schema.queries import file_of
from ...schema.sqlite.transactions import without_triggers
from ...tasks.board.difference import difference, store_again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus


def mend_tasks(bus: Bus) -> Iterator[Mended]:
    """Store tasks as their messages make them, where the table says something else.

    A row stays as it is where the log has lost what it is made of.

    Args:
        bus: the bus, which no other process may use.
    """
    try:
        wrong = difference(bus).wrong
    except SegmentMissing:
        return  # the log can't tell
    if not wrong:
        return
    with bus.transaction(), without_triggers(file_of(bus).connection):
        store_again(bus, wrong)
    names = ", ".join(task.task for task in wrong)
    yield Mended("tasks", f"{names} made again from their messages")
