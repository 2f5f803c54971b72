"""Requests that nobody serves: said at once, and waited for all the same."""

import signal
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackbus import Bus, Queue, Request, Worker
from ackbus.errors import UnservedRequestWarning
from ackbus.subscribers.queues.queue_set import QueueWorkers

from ..conftest import RunBus, wait_until
from ..workers.hosts import LONG_S, Host, at_work
from .work import take

REQUEST = "job.request"


@contextmanager
def nothing_is_warned_of() -> Iterator[None]:
    with warnings.catch_warnings(action="error"):
        yield


def publish(bus: Bus, type: str = REQUEST, **fields: str) -> Request:
    return Request.send(bus, type, from_agent="alice", **fields)


def test_request_that_no_worker_serves_warns_and_is_published(bus: Bus) -> None:
    with pytest.warns(UnservedRequestWarning, match=r"no live worker serves 'job\.request'; it"):
        asked = publish(bus)
    assert bus.get(asked.seq) is not None


def test_request_that_a_live_worker_serves_is_not_warned_of(bus: Bus) -> None:
    """Before it has ever claimed anything; and not after it has ended."""
    worker = Worker(bus, Queue.create(bus, "jobs", REQUEST), group="crew")
    with at_work(worker, lambda message: None):
        wait_until(lambda: QueueWorkers(bus).unserved(REQUEST) is None)
        with nothing_is_warned_of():
            publish(bus)
        with pytest.warns(UnservedRequestWarning, match=r"near: job\.request;"):
            publish(bus, "jobs.request")
    wait_until(lambda: bus.heartbeats.list()[0].status == "stopped")
    with pytest.warns(UnservedRequestWarning):
        publish(bus)


def test_worker_whose_heart_has_stood_still_is_not_live(bus: Bus, bus_dir: Path) -> None:
    """Nor one that only looks on: it answers nothing."""
    queue = Queue.create(bus, "jobs", "job.*")
    QueueWorkers(bus).note(queue.info, "crew")
    bus.heartbeats.beat("crew")
    assert QueueWorkers(bus).unserved(REQUEST) is None
    late_ms = bus.now_ms() + 101_000
    with Bus.open(bus_dir, clock=lambda: late_ms) as later:
        assert QueueWorkers(later).unserved(REQUEST) is not None
    bus.heartbeats.beat("crew", "stopped")
    looker = Worker(bus, Queue.create(bus, "audit", ">"), group="audit", answers=False)
    with at_work(looker, lambda message: None):
        wait_until(lambda: bus.heartbeats.get("audit"))
        assert QueueWorkers(bus).unserved(REQUEST) is not None


def test_worker_without_a_heart_counts_while_it_is_at_a_job(bus: Bus) -> None:
    """Over HTTP or MCP, for instance."""
    queue = Queue.create(bus, REQUEST)
    publish(bus)
    claim = take(queue)
    with nothing_is_warned_of():
        publish(bus)
    queue.complete(claim)
    assert QueueWorkers(bus).unserved(REQUEST) is not None


def test_request_to_an_agent_or_once_more_is_not_warned_of(bus: Bus) -> None:
    """Its recipient is warned of, where nobody knows it; and the first time has told it."""
    bus.heartbeats.beat("bob")
    publish(bus, id="r-1")
    with nothing_is_warned_of():
        publish(bus, to_agent="bob")
        publish(bus, id="r-1")


@pytest.mark.slow
def test_command_says_so_at_once_and_waits_for_the_answer(
    bus: Bus, run_bus: RunBus, project: Path, bus_env: dict[str, str]
) -> None:
    """The worker may be started later."""
    command = [Path(sysconfig.get_path("scripts"), "bus"), "request", REQUEST, "go"]
    asking = Host([*command, "--from", "alice"], project, bus_env, project / "log")
    try:
        wait_until(lambda: "no live worker serves 'job.request'" in asking.log, LONG_S)
        assert asking.process.poll() is None
        assert run_bus("run", "--type", REQUEST, "--drain", "--", "cat").code == 0
        assert asking.ended() == 0
        assert asking.log.endswith("go\n")
    finally:
        asking.tell(signal.SIGKILL)
