"""The thread that keeps a worker's claims: what it notices, and what its own end means."""

import threading
import time
from pathlib import Path

import pytest

from ackbus import Bus, JobControl, Message, Queue, RawCommand, Worker
from ackbus.errors import AckbusError
from ackbus.subscribers.jobs.claims import Claim
from ackbus.workers.work import FunctionWork

from ..conftest import wait_until
from ..subscribers.work import state, statuses
from .hosts import LONG_S, REQUEST, answer, ask, is_alive, pid_in


@pytest.fixture(autouse=True)
def _in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


def test_cancelled_job_ends_its_command_long_before_the_next_renewal(bus: Bus) -> None:
    """K-10: about a second later, however long the lease is."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, "a")
    raw = RawCommand(bus, ["sh", "-c", "echo $$ >pid; exec sleep 60"], group="g")
    worker = Worker(bus, queue, lease_s=3600, beats=False)
    thread = threading.Thread(target=lambda: worker.run_work(raw, drain=True), daemon=True)
    thread.start()
    pid = pid_in(Path("pid"))
    JobControl(queue).cancel(1)
    cancelled = time.monotonic()
    wait_until(lambda: not is_alive(pid))
    assert time.monotonic() - cancelled < LONG_S
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert (state(queue), statuses(queue)) == ("cancelled", ["lost"])
    assert answer(bus).headers["status"] == "cancelled"


class Unstoppable(FunctionWork):
    """Work whose stopping goes wrong, in the thread that keeps the claims."""

    def stop(self, claim: Claim, grace_s: float) -> None:
        raise RuntimeError("can't be stopped")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_worker_whose_keeper_has_died_stops_with_an_error(bus: Bus) -> None:
    """Pitfall 11: without it every lease would run out unnoticed."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, "a", "b")

    def handle(message: Message) -> None:
        JobControl(queue).cancel(message.seq)
        (keeper,) = (one for one in threading.enumerate() if one.name.startswith("keeper"))
        wait_until(lambda: not keeper.is_alive())

    with pytest.raises(AckbusError, match="the thread that renews the leases has died"):
        Worker(bus, queue, beats=False).run_work(Unstoppable(handle, bus))
    assert [state(queue, seq) for seq in (1, 2)] == ["cancelled", "queued"]
