"""A stateful machine: whatever agents do with tasks, the bus and a plain model agree."""

import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackbus import Bus
from ackbus.errors import Refused
from ackbus.tasks.records.task import NewTask
from ackbus.tasks.steps.messages import fold
from ackbus.tasks.steps.tasks import Tasks

from ..sizes import size
from .conftest import RUNS

pytestmark = pytest.mark.slow

NAMES = [f"t-{number}" for number in range(4)]
WORKERS = ["w-1", "w-2"]
NEXT = {"ASSIGNED": "WORKING", "WORKING": "IN_REVIEW", "IN_REVIEW": "APPROVED"}
LEASE_S = 10.0

names, workers = st.sampled_from(NAMES), st.sampled_from(WORKERS)
#: Mostly as it should be: a task that never goes on shows little.
mostly = st.sampled_from([True, True, True, False])


@dataclass
class Model:
    """A task as plain values; written without a look at the code."""

    worker: str
    max_attempts: int
    review: str
    from_queue: bool
    on_lost: str
    state: str = "ASSIGNED"
    attempt: int = 1
    token: int | None = None  # of the lease, with its end
    until_ms: int = 0
    asks: bool = False
    deadline_ms: int | None = None
    states: list[tuple[int, str]] = field(default_factory=lambda: [(1, "ASSIGNED")])
    jobs: int = 0
    completions: int = 0

    def __post_init__(self) -> None:
        self.made_for = self.holder = self.worker

    def go(self, state: str) -> None:
        self.state = state
        self.states.append((self.attempt, state))

    def over(self, *, final: bool, job: bool = True) -> None:
        self.token, self.asks, self.deadline_ms = None, False, None
        self.go("FAILED")
        if not final and self.attempt < self.max_attempts:
            self.attempt += 1
            self.jobs += self.from_queue and job
            self.go("ASSIGNED")

    def done(self) -> None:
        self.token = None
        self.go("IN_REVIEW")
        if self.review == "none":
            self.approved()

    def approved(self) -> None:
        self.go("APPROVED")
        self.completions += 1

    def is_held(self, now_ms: int) -> bool:
        return self.token is not None and self.until_ms > now_ms


class TaskMachine(RuleBasedStateMachine):
    """Four tasks, two workers, reviewers, an integrator, and a clock."""

    @initialize(
        attempts=st.integers(1, 3),
        review=st.sampled_from(["none", "required", "other"]),
        from_queue=st.booleans(),
        on_lost=st.sampled_from(["requeue", "requeue", "fail"]),
    )
    def open_bus(self, attempts: int, review: str, from_queue: bool, on_lost: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="ackbus-model-")
        self.now_ms = 1_000_000
        self.bus = Bus.init(self.folder, clock=lambda: self.now_ms)
        self.tasks = Tasks(self.bus)
        self.models: dict[str, Model] = {}
        #: Every token that was ever given for a task.
        self.tokens: dict[str, list[int]] = {name: [] for name in NAMES}
        for name, worker in zip(NAMES, WORKERS * 2, strict=True):
            self.assign(name, worker, attempts, review, from_queue, on_lost)

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.close()
            shutil.rmtree(self.folder)

    def attempted(self, call: Any, *, allowed: bool) -> Any:
        """Do a step; it is refused exactly when the model says so."""
        try:
            result = call()
        except Refused:
            assert not allowed
            return None
        assert allowed
        return result

    def assign(
        self,
        name: str,
        worker: str,
        attempts: int,
        review: Any,
        from_queue: bool,
        on_lost: Any,
    ) -> None:
        new = NewTask(
            task=name,
            worker=worker,
            branch=f"{worker}/{name}",
            path=f"/trees/{name}",
            repository="/repository/.git",
            base_ref="main",
            base="1" * 40,
            target="main",
            review=review,
            max_attempts=attempts,
            from_queue=from_queue,
            on_lost=on_lost,
        )
        model = self.models.get(name)
        task = self.attempted(
            lambda: self.tasks.assign(new, agent="lead", lease_s=LEASE_S),
            allowed=model is None or worker == model.made_for == model.worker,
        )
        if task is None:
            return
        if model is None:
            model = self.models[name] = Model(worker, attempts, review, from_queue, on_lost)
            self.hold(name, task.token, worker)
        elif model.state == "ASSIGNED" and not model.is_held(self.now_ms):
            self.hold(name, task.token, worker)

    def hold(self, name: str, token: int, holder: str) -> None:
        model = self.models[name]
        assert all(token > before for before in self.tokens[name])
        self.tokens[name].append(token)
        model.token, model.holder = token, holder
        model.until_ms = self.now_ms + round(LEASE_S * 1000)

    @rule(name=names, own=mostly, newest=mostly, named=st.booleans())
    def start(self, name: str, own: bool, newest: bool, named: bool) -> None:
        model = self.models.get(name)
        if model is None:
            return
        worker = self.one_of(model.worker, own=own)
        token = self.token(name, newest=newest) if named else None
        holds = token is not None and self.holds(model, worker, token)
        is_free = token is None and not model.is_held(self.now_ms)
        may = worker == model.worker or model.from_queue
        again = model.state == "WORKING" and holds and not model.asks
        allowed = again or (model.state == "ASSIGNED" and may and (holds or is_free))
        task = self.attempted(
            lambda: self.tasks.start(name, agent=worker, token=token, lease_s=LEASE_S),
            allowed=allowed,
        )
        if task is None or again:
            return
        if is_free:
            self.hold(name, task.token, worker)
        model.worker = worker
        model.until_ms = self.now_ms + round(LEASE_S * 1000)
        model.go("WORKING")

    def one_of(self, worker: str, *, own: bool) -> str:
        """The worker, or the other one."""
        return worker if own else next(each for each in WORKERS if each != worker)

    def token(self, name: str, *, newest: bool) -> int:
        """The newest token of a task, or the one before it."""
        known = self.tokens[name]
        return known[-1] if newest or len(known) == 1 else known[-2]

    def holds(self, model: Model, worker: str, token: int) -> bool:
        return bool(model.is_held(self.now_ms) and model.token == token and model.holder == worker)

    @rule(
        name=names,
        own=mostly,
        newest=mostly,
        act=st.sampled_from([*["heartbeat", "done", "block", "retry"] * 3, "fail"]),
    )
    def act_as_holder(self, name: str, own: bool, newest: bool, act: str) -> None:
        model = self.models.get(name)
        if model is None:
            return
        worker, token = self.one_of(model.holder, own=own), self.token(name, newest=newest)
        holds = self.holds(model, worker, token) and not model.asks
        live = model.state in (*NEXT, "APPROVED")
        who: Any = {"agent": worker, "token": token}
        head = str(len(model.states)) * 40
        calls: dict[str, Any] = {
            "heartbeat": lambda: self.tasks.heartbeat(name, **who, lease_s=LEASE_S),
            "done": lambda: self.tasks.done(name, **who, head=head[:40]),
            "block": lambda: self.tasks.block(name, **who, question="?", deadline_s=15),
            "fail": lambda: self.tasks.fail(name, **who, reason="no"),
            "retry": lambda: self.tasks.fail(name, **who, reason="no", retry=True),
        }
        working = act in ("done", "block")
        allowed = holds and live and (model.state == "WORKING" or not working)
        if self.attempted(calls[act], allowed=allowed) is None:
            return
        if act == "heartbeat":
            model.until_ms = self.now_ms + round(LEASE_S * 1000)
        elif act == "done":
            model.done()
        elif act == "block":
            model.token, model.asks, model.deadline_ms = None, True, self.now_ms + 15_000
        else:
            model.over(final=act == "fail")

    @rule(
        name=names,
        act=st.sampled_from([*["approve", "reject", "land", "send_back", "answer"] * 3, "cancel"]),
        agent=st.sampled_from(["rita", *WORKERS]),
    )
    def act_as_another(self, name: str, act: str, agent: str) -> None:
        model = self.models.get(name)
        if model is None:
            return
        attempt = model.attempt
        calls: dict[str, Any] = {
            "approve": lambda: self.tasks.approve(name, agent=agent),
            "reject": lambda: self.tasks.reject(name, agent=agent, words="no"),
            "land": lambda: self.tasks.land(name, attempt=attempt, agent=agent, commit="c" * 40),
            "send_back": lambda: self.tasks.send_back(
                name, attempt=attempt, agent=agent, reason="no"
            ),
            "cancel": lambda: self.tasks.cancel(name, agent=agent),
            "answer": lambda: self.tasks.answer(name, agent=agent, words="x", lease_s=LEASE_S),
        }
        own = model.review == "other" and agent == model.worker
        allowed = {
            "approve": model.state == "APPROVED" or (model.state == "IN_REVIEW" and not own),
            "reject": model.state == "IN_REVIEW",
            "land": model.state in ("APPROVED", "COMPLETED"),
            "send_back": model.state == "APPROVED",
            "cancel": model.state not in ("COMPLETED", "FAILED"),
            "answer": model.asks,
        }[act]
        before = model.state
        task = self.attempted(calls[act], allowed=allowed)
        if task is None:
            return
        if act == "approve" and before == "IN_REVIEW":
            model.approved()
        elif act in ("reject", "send_back"):
            model.over(final=False)
        elif act == "land" and before == "APPROVED":
            model.go("COMPLETED")
        elif act == "cancel" and before != "CANCELLED":
            model.token, model.asks = None, False
            model.go("CANCELLED")
        elif act == "answer":
            model.asks, model.deadline_ms = False, None
            self.hold(name, task.token, model.worker)

    @rule(name=names)
    def go_on(self, name: str) -> None:
        """One step as it should be: Hypothesis often leaves whole rules out of a run."""
        model = self.models[name]
        if model.asks:
            self.act_as_another(name, "answer", "rita")
        elif model.state == "ASSIGNED":
            held = model.is_held(self.now_ms)
            self.start(name, own=True, newest=True, named=held)
        elif model.state == "WORKING":
            self.act_as_holder(name, own=True, newest=True, act="done")
        elif model.state == "IN_REVIEW":
            if model.review == "other":  # refused, and so nothing that the next step depends on
                self.act_as_another(name, "approve", model.worker)
            self.act_as_another(name, "reject" if model.attempt == 1 else "approve", "rita")
        elif model.state == "APPROVED":
            self.act_as_another(name, "send_back" if model.attempt == 2 else "land", "rita")

    @rule(name=names, worker=workers)
    def assign_again(self, name: str, worker: str) -> None:
        model = self.models[name]
        self.assign(name, worker, model.max_attempts, model.review, model.from_queue, model.on_lost)

    @rule(seconds=st.sampled_from([1, 9, 10, 16]))
    def time_passes(self, seconds: int) -> None:
        self.now_ms += seconds * 1000

    @rule()
    def settle(self) -> None:
        lost, late = set(), set()
        for name, model in self.models.items():
            if model.state != "WORKING":
                continue
            if model.asks and model.deadline_ms is not None and model.deadline_ms <= self.now_ms:
                late.add(name)
            elif not model.asks and not model.is_held(self.now_ms):
                lost.add(name)
        assert {task.task for task in self.tasks.settle_lost()} == lost
        assert {task.task for task in self.tasks.settle_deadlines()} == late
        for name in lost:
            self.models[name].over(final=self.models[name].on_lost == "fail", job=False)
        for name in late:
            self.models[name].over(final=True)

    @invariant()
    def tasks_are_the_model(self) -> None:
        found = {task.task: task for task in self.tasks.list()}
        assert set(found) == set(self.models)
        for name, model in self.models.items():
            task = found[name]
            seen = (task.state, task.attempt, task.worker, task.blocked is not None)
            assert seen == (model.state, model.attempt, model.worker, model.asks)
            held = self.tasks.holder(task)
            assert (held is not None) == model.is_held(self.now_ms)
            if held is not None:
                assert held.token == model.token

    @invariant()
    def log_adds_up_to_the_tasks(self) -> None:
        folded = fold(self.bus.read())
        assert folded.foreign == []
        assert folded.tasks == {task.task: task for task in self.tasks.list()}

    @invariant()
    def work_is_published_once_for_each_cause(self) -> None:
        for type, count in (("task.job", "jobs"), ("task.completion", "completions")):
            told = [message.payload["task"] for message in self.bus.read(type=type)]
            for name, model in self.models.items():
                assert told.count(name) == getattr(model, count)


class TestTaskIsItsModel(TaskMachine.TestCase):  # type: ignore[valid-type, misc]
    """M-01, M-02, M-03: skipped and backward steps, late holders, questions, lost workers."""

    settings = settings(max_examples=size(sample=15, whole=400) * RUNS, stateful_step_count=50)
