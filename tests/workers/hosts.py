"""Short forms for the tests of workers: requests, their answers, and workers beside the test."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ackbus import Bus, Draft, Message, Worker
from ackbus.subscribers.jobs.claims import ClaimRecord
from ackbus.subscribers.queues.queue import Queue

from ..conftest import wait_until
from ..subscribers.work import attempts

#: The type that is asked for in these tests, and its queue.
REQUEST = "job.request"

#: Far more than anything here takes: it only bounds what goes wrong.
LONG_S = 30.0


def ask(bus: Bus, *payloads: object, type: str = REQUEST, **fields: object) -> list[int]:
    """Publishes a request for each payload, in one transaction, and returns their seqs."""
    options: dict[str, object] = {"from_agent": "boss"} | fields
    drafts = [Draft(type, payload, **options) for payload in payloads]  # type: ignore[arg-type]
    return [receipt.seq for receipt in bus.publish_many(drafts)]


def answers(bus: Bus, seq: int = 1) -> list[Message]:
    """The answers to a message."""
    request = bus.get(seq)
    assert request is not None
    return [found for found in bus.read() if found.in_reply_to == request.id]


def answer(bus: Bus, seq: int = 1) -> Message:
    """The one answer to a message that there must be."""
    (only,) = answers(bus, seq)
    return only


def done(bus: Bus) -> int:
    """The number of requests that were answered with success."""
    return len(list(bus.read(type="job.done")))


def wait_for_done(bus: Bus, count: int) -> None:
    """Waits until so many have been."""
    wait_until(lambda: done(bus) >= count, LONG_S)


def attempt(bus: Bus, seq: int = 1, queue: str = REQUEST) -> ClaimRecord:
    """The one claim on a message that there must be."""
    (only,) = attempts(Queue.open(bus, queue), seq)
    return only


@contextmanager
def at_work(
    worker: Worker, handler: Callable[[Message], object], *, drain: bool = False
) -> Iterator[threading.Thread]:
    """A worker runs in a thread; at the end it is stopped, and must not have failed."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            worker.run(handler, drain=drain)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(LONG_S)
    assert not thread.is_alive()
    assert failures == []


class Host:
    """A `bus run` that runs beside the test.

    Attributes:
        process: its process.
    """

    def __init__(self, argv: Sequence[str | Path], cwd: Path, env: dict[str, str], log: Path):
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text()

    def tell(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Waits for its end, and returns its exit code."""
        return self.process.wait(LONG_S)

    def stopped(self) -> str:
        """Sends SIGTERM, after which it must end well, and returns what it printed."""
        self.tell(signal.SIGTERM)
        assert self.ended() == 0, self.log
        return self.log


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not dead and merely not reaped."""
    ps = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")


def pid_in(path: Path) -> int:
    """Waits for a process to write its id, as a line, into a file, and returns it."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), LONG_S)
    return int(path.read_text().splitlines()[-1])


def python(source: str) -> list[str]:
    """The command that runs a Python program."""
    return [sys.executable, "-c", source]
