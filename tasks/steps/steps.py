"""The base of all steps of tasks."""

from __future__ import annotations

from ...schema.arguments import with_checked_arguments
from ...schema.errors import LeaseLost
from ...schema.message.times import format_ts
from ..records.task import FINAL, lease_of
from .changes import Changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.leases import Lease
    from ..records.task import Task


@with_checked_arguments
class Steps:
    """Steps of the tasks of a bus. Each method is one transaction, and safe to repeat.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._changes = Changes(bus)
        self._table = self._changes.table

    def get(self, name: str) -> Task:
        """Return a task.

        Raises:
            TaskNotFound: there is none of this name.
        """
        return self._changes.get(name)

    def holder(self, task: Task) -> Lease | None:
        """Return the lease under which a task is held now, or None."""
        held = self.bus.leases.get(task.lease_name)
        return held if held is not None and held.until_ms > self.bus.now_ms() else None

    def _take(self, task: str, worker: str, lease_s: float) -> Lease:
        lease = self.bus.leases.acquire(lease_of(task), worker, lease_s=lease_s)
        if lease is None:
            held = self.bus.leases.get(lease_of(task))
            whose = f"{held.holder} until {format_ts(held.until_ms)}" if held else "another"
            raise LeaseLost(
                f"task {task!r} is held by {whose}; use the token of that lease, which is in the"
                " record of the task"
            )
        return lease

    def _refuse_final(self, task: Task) -> None:
        if task.state in FINAL:
            self._changes.expect(task, "ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED")
