"""U-77: whatever clients do, the three queues and a plain model agree."""

import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackbus import Bus
from ackbus.tasks.control.entries import LEASE_S, NotClaimed
from ackbus.tasks.control.jobs import JobQueue, Sweep
from ackbus.tasks.control.requests import Completions, Requests
from ackbus.tasks.control.status import WorkerTable

from ...sizes import size

pytestmark = pytest.mark.slow

PRIORITIES = ("interactive", "normal", "background")
QUEUES = ("requests", "jobs", "completions")
WORKERS = ("w1", "w2")

#: How much older one must be to go before one that is a step more urgent; how often a lost one is
#: tried; how long a job shows no activity, and its door's lease.
AGEING_MS, MAX_ATTEMPTS, STALE_MS, JOB_LEASE_MS = 60_000, 4, 120_000, 86_400_000
#: How long a job whose worker is at it shows neither activity nor a beat, by its budgets.
GRACE_MS = {"interactive": 420_000, "normal": 600_000, "background": 600_000}
DONE = {"requests": "completed", "jobs": "completed", "completions": "processed"}

queues = st.sampled_from(QUEUES)
workers = st.sampled_from(WORKERS)


@dataclass
class Entry:
    """An entry of the model."""

    id: str
    number: int
    rank_ms: int
    target: str | None
    priority: str
    status: str = "pending"
    worker: str | None = None
    attempt: int = 1
    until_ms: int = 0
    active_ms: int = 0
    lines: int = 0


class Control(RuleBasedStateMachine):
    """Clients of three queues, a clock that only the machine moves, and a dictionary as model."""

    @initialize()
    def open_bus(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ackbus-control-")
        self.now_ms = 1_000_000
        self.bus = Bus.init(self.folder, clock=lambda: self.now_ms)
        self.told: list[str] = []
        self.failed: list[str] = []
        self.requests = Requests(self.bus)
        self.jobs = JobQueue(self.bus, lambda *event: self.told.append(event[2]["jobId"]))
        self.completions = Completions(self.bus)
        self.workers = WorkerTable(self.bus, self.jobs.entries)
        self.sweep = Sweep(self.bus, self.jobs)
        self.model: dict[str, list[Entry]] = {name: [] for name in QUEUES}
        self.beats: dict[str, tuple[int, str, str | None]] = {}
        for name in QUEUES:
            self.enqueue(name, "background", None)
            self.enqueue(name, "normal", "w2")

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.close()
            shutil.rmtree(self.folder)

    # Clients -----------------------------------------------------------------------------------

    @rule(name=queues, priority=st.sampled_from(PRIORITIES), only=st.sampled_from((None, "w2")))
    def enqueue(self, name: str, priority: str, only: str | None) -> None:
        body: dict[str, Any] = {"sessionId": "s1", "priority": priority}
        if name == "requests":
            id = self.requests.enqueue(body | {"prompt": "x"})["requestId"]
        elif name == "jobs":
            body |= {"taskId": "t", "kind": "k", "targetWorkerId": only}
            id = self.jobs.enqueue(body)["jobId"]
        else:
            id = self.completions.enqueue(body | {"jobId": "j", "message": "m"})
            priority = "normal"  # completions have none
        rank_ms = self.now_ms + PRIORITIES.index(priority) * AGEING_MS
        number = sum(map(len, self.model.values()))
        self.model[name].append(
            Entry(id, number, rank_ms, only if name == "jobs" else None, priority)
        )

    @rule(name=queues, worker=workers)
    def claim(self, name: str, worker: str) -> None:
        self._lose_leases(name)
        line = [e for e in self.model[name] if e.status == "pending" and e.target in (None, worker)]
        line.sort(key=lambda e: (e.target is None, e.rank_ms, e.number))
        found = getattr(self, name).claim(worker)
        assert (found and found[0]["id"]) == (line[0].id if line else None)
        if not line:
            return
        entry = line[0]
        lease_ms = JOB_LEASE_MS if name == "jobs" else round(LEASE_S * 1000)
        entry.status, entry.worker, entry.active_ms = "claimed", worker, self.now_ms
        entry.until_ms = self.now_ms + lease_ms
        if name == "jobs":
            self.beats[worker] = (self.now_ms, "busy", entry.id)

    def _lose_leases(self, name: str) -> None:
        for entry in self.model[name]:
            if entry.status == "claimed" and entry.until_ms <= self.now_ms:
                if name != "jobs" and entry.attempt < MAX_ATTEMPTS:
                    entry.status, entry.attempt = "pending", entry.attempt + 1
                else:
                    entry.status = "failed"

    @rule(
        name=queues,
        pick=st.integers(0, 30),
        is_good=st.booleans(),
        agent=st.sampled_from((None, "w1", "w2")),
    )
    def end(self, name: str, pick: int, is_good: bool, agent: str | None) -> None:
        """In time, late, again, or by somebody else."""
        live = [entry for entry in self.model[name] if entry.status == "claimed"]
        entries = live if live and pick % 3 else self.model[name]
        entry = entries[pick % len(entries)]
        may = (
            entry.status == "claimed"
            and agent in (None, entry.worker)
            and entry.until_ms > self.now_ms
        )
        queue = getattr(self, name)
        good = queue.processed if name == "completions" else queue.complete
        arguments = ([{}] if name != "completions" else []) if is_good else ["no"]
        try:
            (good if is_good else queue.fail)(entry.id, *arguments, agent=agent)
        except NotClaimed:
            assert not may
            return
        assert may
        entry.status = DONE[name] if is_good else "failed"
        if name == "jobs":
            if not is_good:
                self.failed.append(entry.id)
            if not self._claims_of(entry.worker):
                self.beats[str(entry.worker)] = (self.now_ms, "idle", None)

    def _claims_of(self, worker: str | None) -> list[Entry]:
        return [e for e in self.model["jobs"] if e.status == "claimed" and e.worker == worker]

    @rule(pick=st.integers(0, 30))
    def log(self, pick: int) -> None:
        entry = self.model["jobs"][pick % len(self.model["jobs"])]
        self.jobs.log(entry.id, f"line {entry.lines}")
        entry.lines += 1
        entry.active_ms = self.now_ms

    @rule(worker=workers, status=st.sampled_from(("idle", "busy")), pick=st.integers(0, 30))
    def beat(self, worker: str, status: str, pick: int) -> None:
        own = self._claims_of(worker)
        job = own[pick % len(own)].id if own and status == "busy" else None
        self.workers.heartbeat({"workerId": worker, "status": status, "currentJobId": job})
        self.beats[worker] = (self.now_ms, status, job)

    # Courses of things: Hypothesis often leaves whole rules out of a run --------------------------

    @rule(worker=workers, early_ms=st.sampled_from((0, 1)), is_beating=st.booleans())
    def a_job_is_silent(self, worker: str, early_ms: int, is_beating: bool) -> None:
        """Claim, fall silent up to where the sweep takes the job, or to just before."""
        self.enqueue("jobs", "interactive", None)
        self.claim("jobs", worker)
        if is_beating:
            self.now_ms += 60_000
            self.beat(worker, "busy", 0)
        self.now_ms += GRACE_MS["interactive"] - early_ms
        self.look()

    @rule(name=queues, early_ms=st.sampled_from((0, 1)), times=st.integers(1, MAX_ATTEMPTS))
    def a_client_is_lost(self, name: str, early_ms: int, times: int) -> None:
        """Claim, and again at the end of the lease, or just before."""
        self.enqueue(name, "interactive", None)
        for _ in range(times):
            self.claim(name, "w1")
            if name != "jobs":
                self.now_ms += round(LEASE_S * 1000) - early_ms
        self.claim(name, "w2")

    @rule(name=queues, more_ms=st.sampled_from((-1, 0, 1)), steps=st.integers(1, 2))
    def an_urgent_one_comes(self, name: str, more_ms: int, steps: int) -> None:
        """Enqueue one that has waited as long as its steps of priority, or about so."""
        self.enqueue(name, PRIORITIES[steps], None)
        self.now_ms += steps * AGEING_MS + more_ms
        self.enqueue(name, "interactive", None)
        for worker in WORKERS:
            self.claim(name, worker)

    # Time --------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from((1, 59_999, 60_000, 119_999, 120_001, 300_000, 900_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule()
    def look(self) -> None:
        """Sweep, and compare what was taken from whom."""
        expected = []
        for entry in self.model["jobs"]:
            if entry.status == "claimed" and self._is_stale(entry):
                expected.append(entry.id)
                entry.status = "failed"
                self.failed.append(entry.id)
                # From here on its worker protects nothing that it has besides.
                self.beats[str(entry.worker)] = (self.beats[str(entry.worker)][0], "error", None)
        assert [each.job for each in self.sweep.run()] == expected

    def _is_stale(self, entry: Entry) -> bool:
        """The rule in the simplest words: neither activity nor a beat of a worker at it."""
        at_ms, status, job = self.beats[str(entry.worker)]
        if status == "busy" and job == entry.id:
            return self.now_ms - max(entry.active_ms, at_ms) >= GRACE_MS[entry.priority]
        return self.now_ms - entry.active_ms >= STALE_MS

    # What must be true -------------------------------------------------------------------------

    @invariant()
    def statuses_are_the_model(self) -> None:
        for name in QUEUES:
            entries = getattr(self, name).entries
            found = {entry.id: (entry.status, entry.holder) for entry in entries.list(limit=500)}
            assert found == {
                e.id: (e.status, None if e.status == "pending" else e.worker)
                for e in self.model[name]
            }

    @invariant()
    def counts_are_the_model(self) -> None:
        for name in QUEUES:
            counts, _ = getattr(self, name).entries.counts()
            for status, count in counts.items():
                assert count == sum(e.status == status for e in self.model[name])

    @invariant()
    def every_failure_is_told_once(self) -> None:
        assert sorted(self.told) == sorted(self.failed)

    @invariant()
    def output_is_whole(self) -> None:
        for entry in self.model["jobs"]:
            lines = [line.text for line in self.jobs.logs(entry.id, limit=500)]
            assert lines == [f"line {number}" for number in range(entry.lines)]


TestControl = Control.TestCase
TestControl.settings = settings(
    derandomize=True,
    print_blob=True,
    deadline=None,
    max_examples=size(sample=12, whole=150),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
