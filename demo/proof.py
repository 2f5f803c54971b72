"""The proof: facts from the log after the run, without any memory of the run itself."""

from __future__ import annotations

from dataclasses import dataclass

from .protocol import RESULTS, TASK_ASSIGN, TASK_HELD, WORKER_KILLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus
    from ..schema.message.message import Message


@dataclass(frozen=True, slots=True)
class Takeover:
    """The takeover of the task whose lease a killed worker held.

    Attributes:
        task: the id of the task, which is that of its conversation.
        path: its file.
        killed: the worker that was killed on purpose.
        pid: its process.
        taken_over_by: the agent that published the result; None: no agent did.
        tokens: the fencing tokens of the killed worker's lease and of its successor's.
    """

    task: str
    path: str
    killed: str
    pid: int
    taken_over_by: str | None
    tokens: tuple[int, int]

    @property
    def holds(self) -> bool:
        """Whether another worker, with a later grant, finished the work."""
        lost, won = self.tokens
        return self.taken_over_by not in (None, self.killed) and lost < won


@dataclass(frozen=True, slots=True)
class Proof:
    """Counts from the log.

    Attributes:
        tasks: how many tasks were assigned.
        examined: how many have a result that was worked out under a lease.
        reported_once: how many have exactly one result.
        results: how many results there are in all.
        takeover: the takeover of the killed worker's task; None when no worker was killed.
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
    """Count in the log; holds a page of it in memory at a time."""
    tasks = examined = reported_once = results = 0
    takeover = None
    for message in bus.read():
        if message.type == TASK_ASSIGN:
            answers = _results_of(bus, message.id)
            tasks += 1
            examined += any(answer.payload["token"] > 0 for answer in answers)
            reported_once += len(answers) == 1
        elif message.type in RESULTS:
            results += 1
        elif message.type == WORKER_KILLED:
            takeover = _takeover(bus, message)
    return Proof(tasks, examined, reported_once, results, takeover)


def _results_of(bus: Bus, task: str) -> list[Message]:
    conversation = bus.read(conversation=task)
    return [message for message in conversation if message.type in RESULTS]


def _takeover(bus: Bus, killing: Message) -> Takeover:
    task = killing.payload["task"]
    held, results = [], []
    for message in bus.read(conversation=task):
        if message.type == TASK_HELD and message.from_agent == killing.payload["agent"]:
            held.append(message)
        elif message.type in RESULTS:
            results.append(message)
    return Takeover(
        task,
        killing.payload["path"],
        killing.payload["agent"],
        killing.payload["pid"],
        results[0].from_agent if held and results else None,
        (killing.payload["token"], results[0].payload["token"] if results else 0),
    )
