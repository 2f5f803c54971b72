"""The keeper of a worker's job: one thread renews the claim and the lease on its task together.

They are renewed in one transaction, so they run out together: nobody gets the job whose task is
still held, or the task whose job is.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from ...schema.errors import AckbusError, LeaseLost
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs.claims import ENDS
from ...subscribers.jobs.errors import ClaimLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from ...bus.leases import Lease
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.queues.queue import Queue
    from ..records.task import Task
    from ..steps.tasks import Tasks

#: How often it looks, in seconds: so soon it notices that a task was cancelled.
LOOK_S = 0.5

_log = logging.getLogger("ackbus.tasks.worker")


@dataclass(slots=True)
class _Held:
    """A claim, the task that it is worked on for, and when they are renewed next."""

    claim: Claim
    due: float
    task: Task | None = None
    leases: tuple[Lease, ...] = ()


class TaskKeeper:
    """Keeps what a worker holds, one job at a time.

    Args:
        queue, tasks: where the job and its task are.
        lease_s: for how long each renewal is.
        on_lost: called from the keeper's thread, with the reason, when the job or the task is no
            longer the worker's.
    """

    def __init__(
        self, queue: Queue, tasks: Tasks, lease_s: float, on_lost: Callable[[str], None]
    ) -> None:
        self._queue, self._tasks = queue, tasks
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._held: _Held | None = None
        self._lock = threading.Lock()  # held while it renews, so that nothing is let go meanwhile
        self._done = threading.Event()
        self._thread: Thread | None = None

    def hold(self, claim: Claim) -> None:
        """Keep a claim from now on."""
        with self._lock:
            self._held = _Held(claim, self._next_due())

    def hold_task(self, task: Task | None, *leases: Lease) -> None:
        """Keep the lease on a task as well, and other leases for it; None: no longer."""
        with self._lock:
            if self._held is not None:
                self._held.task, self._held.leases = task, leases
                self._held.due = 0.0  # from now on they run out together

    def let_go(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._held = None

    def __enter__(self) -> TaskKeeper:
        self._thread = start_thread(self._run, "keeper of a task")
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._done.wait(min(LOOK_S, self._lease_s / 6)):
                with self._lock:
                    held = self._held
                    why = None if held is None else self._look_after(held)
                    if why is not None:
                        self._held = None
                if why is not None:
                    _log.warning("the job is lost: %s", why)
                    self._on_lost(why)
        finally:
            engine_of(self._queue.bus).close_thread()

    def _look_after(self, held: _Held) -> str | None:
        """Renew what is due; return why it is lost, or None."""
        try:
            if self._queue.status(held.claim) in ENDS:
                return None  # this worker has ended it, and is about to let it go
            if held.due > time.monotonic():
                return self._lost(held)
            with self._queue.bus.transaction():
                self._renew(held)
            held.due = self._next_due()
        except (ClaimLost, LeaseLost) as error:
            return str(error)
        except AckbusError as error:  # the bus is busy; there is time for another try
            _log.warning("a job was not renewed: %s", error)
        return None

    def _lost(self, held: _Held) -> str | None:
        if self._queue.status(held.claim) != "active":
            return "its job was cancelled, or its lease ran out"
        if held.task is None:
            return None
        task = self._tasks.get(held.task.task)
        is_mine = (task.attempt, task.token) == (held.task.attempt, held.task.token)
        if is_mine and task.state == "WORKING":
            return None
        if is_mine and task.state in ("IN_REVIEW", "APPROVED"):
            return None  # the program has said itself that it is done
        return f"task {task.task!r} is {task.state} in attempt {task.attempt}"

    def _renew(self, held: _Held) -> None:
        self._queue.renew(held.claim, lease_s=self._lease_s)
        if held.task is not None:
            task = self._tasks.get(held.task.task)
            if task.state == "WORKING" and task.blocked is None:
                self._tasks.heartbeat(
                    task.task,
                    agent=held.claim.group,
                    token=held.task.token,
                    lease_s=self._lease_s,
                )
        for lease in held.leases:
            self._queue.bus.leases.renew(lease, lease_s=self._lease_s)

    def _next_due(self) -> float:
        return time.monotonic() + self._lease_s / 3
