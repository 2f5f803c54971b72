"""The proof: facts from the log and the queue after the run, without any memory of the run."""

from __future__ import annotations

from dataclasses import dataclass

from ..subscribers.jobs.claims import COMPLETED, LOST, Claims
from ..subscribers.queues.queue import Queue
from .protocol import DONE, KILLED, TASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus
    from ..schema.message.message import Message


@dataclass(frozen=True, slots=True)
class Takeover:
    """The takeover of the job whose worker was killed.

    Attributes:
        task: the id of the task, which is that of its conversation.
        path: its file.
        killed: the worker that was killed on purpose.
        pid: its process.
        taken_over_by: the worker that completed the job; None: none did.
        tokens: the fencing tokens of the killed worker's claim and of its successor's; 0: none.
    """

    task: str
    path: str
    killed: str
    pid: int
    taken_over_by: str | None
    tokens: tuple[int, int]

    @property
    def holds(self) -> bool:
        """Whether another worker, with a later claim, finished the work."""
        lost, won = self.tokens
        return self.taken_over_by not in (None, self.killed) and 0 < lost < won


@dataclass(frozen=True, slots=True)
class Proof:
    """Counts from the log.

    Attributes:
        tasks: how many tasks were assigned.
        examined: how many were completed under a claim, once.
        reported_once: how many have exactly one answer.
        results: how many answers there are in all.
        takeover: the takeover of the killed worker's job; None when no worker was killed.
    """

    tasks: int
    examined: int
    reported_once: int
    results: int
    takeover: Takeover | None

    @property
    def holds(self) -> bool:
        """Whether every task was examined, and reported once, and the killed worker's too."""
        counts = {self.tasks, self.examined, self.reported_once, self.results}
        return len(counts) == 1 and self.takeover is not None and self.takeover.holds


def read_proof(bus: Bus) -> Proof:
    """Count in the log and among the claims; holds a page of the log in memory at a time."""
    claims, queue = Claims.of(bus), Queue.open(bus, TASK)
    tasks = examined = reported_once = results = 0
    takeover = None
    for message in bus.read():
        if message.type == TASK:
            ends = [claim.status for claim in claims.of_job(queue.info, message.seq)]
            answers = sum(each.type == DONE for each in bus.read(conversation=message.id))
            tasks += 1
            examined += ends.count(COMPLETED) == 1
            reported_once += answers == 1
        elif message.type == DONE:
            results += 1
        elif message.type == KILLED:
            takeover = _takeover(queue, claims, message)
    return Proof(tasks, examined, reported_once, results, takeover)


def _takeover(queue: Queue, claims: Claims, killing: Message) -> Takeover:
    told = killing.payload
    done = lost = None
    for claim in claims.of_job(queue.info, told["seq"]):
        if claim.status == LOST and claim.group == told["agent"]:
            lost = claim
        elif claim.status == COMPLETED:
            done = claim
    return Takeover(
        told["task"],
        told["path"],
        told["agent"],
        told["pid"],
        done.group if done else None,
        (lost.token if lost else 0, done.token if done else 0),
    )
