"""The control plane over a bus, and a record of what it told sessions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ackbus import Bus
from ackbus.tasks.control.jobs import JobQueue, Sweep
from ackbus.tasks.control.requests import Completions, Requests
from ackbus.tasks.control.status import WorkerTable


@dataclass
class Told:
    """The events that sessions were told of."""

    events: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    def __call__(
        self, session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None
    ) -> None:
        self.events.append((session, type, payload))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def requests(bus: Bus, told: Told) -> Requests:
    return Requests(bus, told)


@pytest.fixture
def jobs(bus: Bus, told: Told) -> JobQueue:
    return JobQueue(bus, told)


@pytest.fixture
def completions(bus: Bus) -> Completions:
    return Completions(bus)


@pytest.fixture
def sweep(bus: Bus, jobs: JobQueue) -> Sweep:
    return Sweep(bus, jobs)


@pytest.fixture
def workers(bus: Bus, jobs: JobQueue) -> WorkerTable:
    return WorkerTable(bus, jobs.entries)


def ask(requests: Requests, priority: str = "normal", **more: Any) -> str:
    """Enqueues a request, and returns its id."""
    body = {"sessionId": "s1", "prompt": "mend it", "priority": priority, **more}
    return str(requests.enqueue(body)["requestId"])


def add(jobs: JobQueue, priority: str = "normal", **more: Any) -> str:
    """Enqueues a job, and returns its id."""
    body = {"taskId": "t1", "kind": "task.execute", "sessionId": "s1", "priority": priority, **more}
    return str(jobs.enqueue(body)["jobId"])


def taken(jobs: JobQueue, worker: str) -> str | None:
    """Claims a job, and returns its id; None without one."""
    claimed = jobs.claim(worker)
    return None if claimed is None else str(claimed[0]["id"])
