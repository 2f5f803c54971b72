"""The name of a worker, which one process at a time has: the kernel frees it with that process.

So a process that has the name knows that its previous holder has ended: what that process held is
free.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from ...schema.directory.file_lock import FileLock
from ...schema.directory.lock_holders import holders
from ...schema.errors import AckbusError, LeaseLost, Refused
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs.claims import ENDS
from ...subscribers.jobs.errors import ClaimLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from ...bus.heartbeat_thread import Heart
    from ...bus.leases import Lease
    from ...bus.local_bus import LocalBus
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.queues.queue import Queue
    from ..records.task import Task
    from ..steps.tasks import Tasks

# The status of a role, which its heartbeats report.


class StatusReporter:
    """Reports the status of a role when it has changed.

    Args:
        heart: of the role.
    """

    def __init__(self, heart: Heart) -> None:
        self._heart = heart
        self._reported: tuple[str, str | None] = ("", None)

    def __call__(self, status: str, what: str | None = None) -> None:
        """Report a status, and what the role works on."""
        plain = None if what is None else "".join(c if c.isprintable() else " " for c in what)
        report = (status, None if plain is None else plain[:500])
        if report != self._reported:
            self._reported = report
            self._heart.update(status, task=report[1])


#: The folder of the locks, in the bus directory.
LOCKS = "workers"

#: For how long a process tries to get a name, and the pause between two tries, in seconds: a worker
#: that ends, or is killed, may need a moment.
_PATIENCE_S, _NAP_S = 2.0, 0.02


class WorkerRuns(Refused):
    """Another worker of this name runs already."""


class WorkerName:
    """The right to be the worker of a name, from `acquire` to `close`.

    Args:
        bus: the bus.
        worker: the name.
    """

    def __init__(self, bus: LocalBus, worker: str) -> None:
        self._bus, self._worker = bus, worker
        self._folder = bus.layout.files.folder(LOCKS)
        self._id = sha256(worker.encode()).hexdigest()[:16]
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Take the name.

        Raises:
            WorkerRuns: another process has it.
        """
        self._folder.make()
        path = self._folder.path_of(f"{self._id}.lock")
        lock, end = FileLock(path, self._folder), time.monotonic() + _PATIENCE_S
        while not lock.try_acquire():
            if time.monotonic() > end:
                who = next(map(str, holders(path)), "another process")
                lock.close()
                raise WorkerRuns(
                    f"worker {self._worker!r} runs already: {who}; choose another name, or end that"
                )
            time.sleep(_NAP_S)
        self._lock = lock

    def close(self) -> None:
        """Give the name back, and remove its scratch folder; more than once does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self.clear()
            lock.close()

    # Scratch -----------------------------------------------------------------------------------

    def fresh_scratch(self) -> str:
        """Return a new, empty folder for one job, for files that belong to no commit.

        Nobody else may read it, or know its name before it is made: in a folder for everybody's
        temporary files another user could make it first.
        """
        self.clear()
        return tempfile.mkdtemp(prefix=self._prefix())

    def clear(self) -> None:
        """Remove the scratch folders of this name, also one that a killed holder has left."""
        begin = self._prefix()
        with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
            for entry in entries:
                if entry.name.startswith(begin) and _is_own_folder(entry):
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _prefix(self) -> str:
        bus = sha256(os.fsencode(self._bus.layout.directory)).hexdigest()[:12]
        return f"ackbus-{os.getuid()}-{bus}-{self._id}-"

    def __enter__(self) -> WorkerName:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder of this user, and no link."""
    is_folder = entry.is_dir(follow_symlinks=False)
    return is_folder and entry.stat(follow_symlinks=False).st_uid == os.getuid()


# The keeper of a worker's job: one thread renews the claim and the lease on its task together.
#
# They are renewed in one transaction, so they run out together: nobody gets the job whose task is
# still held, or the task whose job is.

#: How often the keeper looks, in seconds: so soon it notices that a task was cancelled.
LOOK_S = 0.5

_log = logging.getLogger("ackbus.tasks.worker")


@dataclass(slots=True)
class _HeldJob:
    """A claim, the task that it is worked on for, and when they are renewed next."""

    claim: Claim
    due: float
    task: Task | None = None
    leases: tuple[Lease, ...] = ()


class TaskKeeper:
    """Renews what a worker holds, one job at a time.

    Args:
        queue, tasks: where the job and its task are.
        lease_s: how long claim and lease last after each renewal, in seconds.
        on_lost: called from the keeper's thread, with the reason, when the job or the task is no
            longer the worker's.
    """

    def __init__(
        self, queue: Queue, tasks: Tasks, lease_s: float, on_lost: Callable[[str], None]
    ) -> None:
        self._queue, self._tasks = queue, tasks
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._job: _HeldJob | None = None
        self._lock = threading.Lock()  # held while it renews, so that nothing is let go meanwhile
        self._done = threading.Event()
        self._thread: Thread | None = None

    def hold(self, claim: Claim) -> None:
        """Renew a claim from now on."""
        with self._lock:
            self._job = _HeldJob(claim, self._next_due())

    def hold_task(self, task: Task | None, *leases: Lease) -> None:
        """Renew the lease on a task as well, and other leases for it; None: stop renewing them."""
        with self._lock:
            if self._job is not None:
                self._job.task, self._job.leases = task, leases
                self._job.due = 0.0  # from now on they run out together

    def let_go(self) -> None:
        """Renew nothing any more."""
        with self._lock:
            self._job = None

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
                    job = self._job
                    why = None if job is None else self._look_after(job)
                    if why is not None:
                        self._job = None
                if why is not None:
                    _log.warning("the job is lost: %s", why)
                    self._on_lost(why)
        finally:
            engine_of(self._queue.bus).close_thread()

    def _look_after(self, job: _HeldJob) -> str | None:
        """Renew claim and leases when it is time; return why the job is lost, or None."""
        try:
            if self._queue.status(job.claim) in ENDS:
                return None  # this worker has ended it, and is about to let it go
            if job.due > time.monotonic():
                return self._why_lost(job)
            with self._queue.bus.transaction():
                self._renew(job)
            job.due = self._next_due()
        except (ClaimLost, LeaseLost) as error:
            return str(error)
        except AckbusError as error:  # the bus is busy; there is time for another try
            _log.warning("a job was not renewed: %s", error)
        return None

    def _why_lost(self, job: _HeldJob) -> str | None:
        """Return why a job or its task is no longer the worker's, or None."""
        if self._queue.status(job.claim) != "active":
            return "its job was cancelled, or its lease ran out"
        if job.task is None:
            return None
        task = self._tasks.get(job.task.task)
        is_mine = (task.attempt, task.token) == (job.task.attempt, job.task.token)
        if is_mine and task.state == "WORKING":
            return None
        if is_mine and task.state in ("IN_REVIEW", "APPROVED"):
            return None  # the program has said itself that it is done
        return f"task {task.task!r} is {task.state} in attempt {task.attempt}"

    def _renew(self, job: _HeldJob) -> None:
        self._queue.renew(job.claim, lease_s=self._lease_s)
        if job.task is not None:
            task = self._tasks.get(job.task.task)
            if task.state == "WORKING" and task.blocked is None:
                self._tasks.heartbeat(
                    task.task,
                    agent=job.claim.group,
                    token=job.task.token,
                    lease_s=self._lease_s,
                )
        for lease in job.leases:
            self._queue.bus.leases.renew(lease, lease_s=self._lease_s)

    def _next_due(self) -> float:
        return time.monotonic() + self._lease_s / 3
