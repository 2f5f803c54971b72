"""A bus with tasks that have no work tree: the steps alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Receipt
from ackbus.tasks.records.task import NewTask
from ackbus.tasks.steps.planning import take_in
from ackbus.tasks.steps.tasks import Tasks

from ..subscribers.conftest import Clock


@pytest.fixture
def clock() -> Clock:
    """The clock of the bus."""
    return Clock()


@pytest.fixture
def bus(tmp_path: Path, clock: Clock) -> Iterator[Bus]:
    with Bus.init(tmp_path / "bus", clock=clock) as bus:
        yield bus


@pytest.fixture
def tasks(bus: Bus) -> Tasks:
    return Tasks(bus)


def new_task(name: str = "fix-login", **changed: object) -> NewTask:
    """A task on a branch of a repository that these tests never look at."""
    fields: dict[str, object] = {
        "task": name,
        "worker": "worker-1",
        "branch": f"worker-1/{name}",
        "path": f"/trees/{name}",
        "repository": "/repo/.git",
        "base_ref": "main",
        "base": "1" * 40,
        "target": "main",
        "prompt": "mend the login",
    }
    return NewTask(**(fields | changed))  # type: ignore[arg-type]


def enter(bus: Bus, *drafts: Draft) -> list[Receipt]:
    """Publishes messages as a step that has the right to: what is acted upon enters its queue."""
    with bus.transaction():
        receipts = bus.log.append(drafts)
        take_in(bus, [(draft.type, each.seq) for draft, each in zip(drafts, receipts, strict=True)])
    return receipts
