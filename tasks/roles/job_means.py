"""The means of the work on a job, and the two ways in which it is broken off."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...subscribers.queues.queue import Queue
    from ...workers.processes.supervisors import Supervisors
    from ..programs.agent_program import AgentProgram
    from ..programs.bounded_attempts import BoundedAttempts
    from ..steps.tasks import Tasks
    from .commit_leftovers import Author
    from .job_tree import JobTrees
    from .ports import Ports
    from .says import Says
    from .task_keeper import TaskKeeper
    from .worker_name import WorkerName


class Interrupted(AckbusError):
    """The worker is to end, or has lost the job; what was begun goes on elsewhere."""


class Over(AckbusError):
    """The end of the job is recorded already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """All that the work on a job needs.

    Attributes:
        bus, queue, tasks: where the job and its task are.
        worker: the name of the worker.
        program: what does the work, and how long it may take unless the job says so, in seconds.
        timeout_s: that.
        lease_s: for how long claim and lease are taken and renewed.
        author: of commits.
        trees: the work trees.
        ports: for tasks, or None.
        name: the worker's, with its scratch folder.
        keeper: renews what is held.
        attempts: counts transient failures.
        says: tells what the worker is at.
        supervisors: run the program.
    """

    bus: Bus
    queue: Queue
    tasks: Tasks
    worker: str
    program: AgentProgram
    timeout_s: float | None
    lease_s: float
    author: Author
    trees: JobTrees
    ports: Ports | None
    name: WorkerName
    keeper: TaskKeeper
    attempts: BoundedAttempts
    says: Says
    supervisors: Supervisors
