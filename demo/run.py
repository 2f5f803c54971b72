"""The stage that the demos share, and one run of the first, from the empty bus to the proof."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from itertools import islice

from ..bus.local_bus import LocalBus
from ..export.jsonl.exporter import Exporter
from ..schema.children import PythonProcesses
from ..schema.directory.layout import BUS_DIRECTORY, Layout
from ..schema.errors import AckbusError, InvalidInput, NotFound, Refused
from ..schema.message.draft import Draft
from ..subscribers.inboxes.inbox import Inbox
from ..subscribers.jobs.claims import COMPLETED, LOST, Claims
from ..subscribers.queues.queue import Queue
from .worker import COORDINATOR, DEMO, DONE, HELD, KILLED, TASK, WORKERS, TextFiles, path_to_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..schema.message.message import Message

    #: Prints one line about the run.
    Say = Callable[[str], object]
    #: Shows how much of a total is done: the context's function takes the amount.
    Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]

# The stage of every demo: its folder, its processes, and waits that end.

#: How long anything may take, in seconds, before the demo gives up; and how often it looks: as
#: often as a person can see a difference.
TIMEOUT_S, LOOK_EVERY_S = 60.0, 0.05


class Stage:
    """The folders of one demo.

    Args:
        directory: the directory that a user named for the bus; None: the demo chooses one.

    Raises:
        Refused: it holds a bus: its agents could have the names of the demo's.

    Attributes:
        named: the real path of that directory, or None.
        made: the real paths of what the demo makes and leaves behind. A directory that was there
            before is not among them.
    """

    def __init__(self, directory: str | None) -> None:
        self.named: str | None = None
        self.made: list[str] = []
        if directory is None:
            return
        if os.path.exists(Layout(directory).database):
            raise Refused(
                f"{directory} holds a bus already, and the demo makes its own; choose another"
                " directory with --dir"
            )
        self.named = os.path.realpath(directory)
        if not os.path.lexists(self.named):
            self.made.append(self.named)

    def fresh_folder(self) -> str:
        """Make a temporary folder, and return its real path."""
        folder = os.path.realpath(tempfile.mkdtemp(prefix="ackbus-demo-"))
        self.made.append(folder)
        return folder


def wait_until(is_done: Callable[[], object], what: str, troubles: Callable[[], object]) -> None:
    """Wait until something has happened.

    Args:
        is_done: whether it has happened.
        what: what happens, in words.
        troubles: returns what keeps it from happening; a false value where nothing does.

    Raises:
        AckbusError: there is trouble, or it takes too long.
    """
    ends = time.monotonic() + TIMEOUT_S
    while not is_done():
        if trouble := troubles():
            raise AckbusError(f"this does not happen: {what}; {trouble}")
        if time.monotonic() > ends:
            raise AckbusError(f"this does not happen within {TIMEOUT_S:g} s: {what}")
        time.sleep(LOOK_EVERY_S)


# The proof: facts from the log and the queue after the run, without any memory of the run.


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
class DemoProof:
    """Counts from the log.

    Attributes:
        tasks: how many tasks were assigned.
        examined: how many were completed under a claim, exactly once.
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
        """Whether every task was examined and reported once, the killed worker's task too."""
        counts = {self.tasks, self.examined, self.reported_once, self.results}
        return len(counts) == 1 and self.takeover is not None and self.takeover.holds


def read_proof(bus: LocalBus) -> DemoProof:
    """Count the proof from the log and the claims; one page of the log is in memory at a time."""
    claims, queue = Claims.of(bus), Queue.open(bus, TASK)
    tasks = examined = reported_once = results = 0
    takeover = None
    for message in bus.read():
        if message.type == TASK:
            ends = [claim.status for claim in claims.of_job(queue.info, message.seq)]
            answers = sum(reply.type == DONE for reply in bus.read(conversation=message.id))
            tasks += 1
            examined += ends.count(COMPLETED) == 1
            reported_once += answers == 1
        elif message.type == DONE:
            results += 1
        elif message.type == KILLED:
            takeover = _takeover(queue, claims, message)
    return DemoProof(tasks, examined, reported_once, results, takeover)


def _takeover(queue: Queue, claims: Claims, killing: Message) -> Takeover:
    payload = killing.payload
    done = lost = None
    for claim in claims.of_job(queue.info, payload["seq"]):
        if claim.status == LOST and claim.group == payload["agent"]:
            lost = claim
        elif claim.status == COMPLETED:
            done = claim
    return Takeover(
        payload["task"],
        payload["path"],
        payload["agent"],
        payload["pid"],
        done.group if done else None,
        (lost.token if lost else 0, done.token if done else 0),
    )


#: How many tasks are assigned in one transaction.
BATCH_MESSAGES = 500


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A run that came to its end.

    Attributes:
        directory: the bus, which stays.
        made: the paths that the demo made, to be removed by a person.
        took_s: how long it took, in seconds.
        proof: what the log proves.
        binary: how many binary files were left out.
        unreadable_directories: how many directories could not be listed.
    """

    directory: str
    made: list[str]
    took_s: float
    proof: DemoProof
    binary: int
    unreadable_directories: int


def run_demo(path: str, *, directory: str | None, say: Say, progress: Progress) -> DemoRun:
    """Run the demo to its end; the bus that it made stays on disk.

    Args:
        path: the directory whose text files are examined.
        directory: the directory for the bus; None takes a fresh temporary one.
        say: prints one line about the run.
        progress: shows how much is done.

    Raises:
        InvalidInput: `path` is not a directory that can be read.
        NotFound: there is nothing to examine.
        Refused: `directory` holds a bus already: its agents could have the demo's names.
        AckbusError: no worker is left; what they did stays in the bus.
    """
    root = _readable_directory(path)
    leave_out = None if directory is None else os.path.realpath(directory)
    if next(iter(TextFiles(root, leave_out=leave_out)), None) is None:
        raise NotFound(f"nothing to examine: no text files in {root}")
    began = time.monotonic()
    stage = Stage(directory)
    place = stage.named or os.path.join(stage.fresh_folder(), BUS_DIRECTORY)
    with LocalBus.init(place) as bus, Exporter(bus):
        where = bus.layout.directory
        say(f"the bus is in {where}, and stays there")
        Queue.create(bus, TASK)
        tree = TextFiles(root, leave_out=where)
        tasks = _assign(bus, tree)
        say(f"the coordinator has assigned {_tasks(tasks)}; three workers begin")
        with PythonProcesses() as workers, progress("examining", tasks) as move:
            # Tasks are the first messages of the log; the middle one always finds a worker.
            held_seq = str((tasks + 1) // 2)
            for name in WORKERS:
                words = ("-m", f"{__package__}.worker", where, root, name, held_seq)
                workers.start(name, words, lifeline=True)
            _watch(bus, workers, tasks, say, move)
        Inbox(bus, COORDINATOR).ack(bus.log.newest_seq())
        proof = read_proof(bus)
    took_s = time.monotonic() - began
    return DemoRun(where, stage.made, took_s, proof, tree.binary, tree.unreadable)


def _assign(bus: LocalBus, tree: TextFiles) -> int:
    """Publish a task for each file, and return how many there are."""
    count = 0
    files = iter(tree)
    while batch := list(islice(files, BATCH_MESSAGES)):
        drafts = [Draft(TASK, path_to_payload(path), from_agent=COORDINATOR) for path in batch]
        count += len(bus.publish_many(drafts))
    return count


def _watch(
    bus: LocalBus, workers: PythonProcesses, tasks: int, say: Say, move: Callable[[int], object]
) -> None:
    """Follow the log until each task has its answer, and kill the worker that stalls.

    The kill waits until all workers are there, so that every run shows the same takeover.
    """
    last_seq, done = tasks, 0
    hold: Message | None = None
    while done < tasks:
        for message in bus.read(after_seq=last_seq):
            last_seq = message.seq
            done += message.type == DONE
            hold = message if message.type == HELD else hold
        if hold is not None and all(map(bus.heartbeats.get, workers.names)):
            if hold.from_agent in workers.names:
                say(_kill(bus, workers, hold))
            hold = None
        move(done)
        for name in workers.lost():
            say(f"{name} ended unexpectedly")
        if not workers.names:
            raise AckbusError(
                f"the demo has lost all its workers; what they did stays in {bus.layout.directory}"
            )
        time.sleep(LOOK_EVERY_S)


def _kill(bus: LocalBus, workers: PythonProcesses, hold: Message) -> str:
    """Kill the worker that stalls, publish a message about it, and return a line."""
    worker, path = hold.from_agent, hold.payload["path"]
    pid = workers.kill(worker)
    task = bus.get(hold.conversation)
    assert task is not None
    killed = {"agent": worker, "pid": pid, "task": task.id, "seq": task.seq, "path": path}
    bus.publish(KILLED, killed, from_agent=DEMO)
    return (
        f"killed {worker} (process {pid}) on purpose, at work on {path};"
        " another worker takes over when its lease ends"
    )


def _readable_directory(path: str) -> str:
    root = os.path.realpath(path)
    try:
        os.scandir(root).close()
    except OSError as error:
        raise InvalidInput(f"can't examine {path!r}: {error.strerror}") from error
    return root


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number:,} tasks"
