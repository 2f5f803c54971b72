"""The rules of a machine: acts on two queues, done to the bus and told to the model."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ackbus import Bus, Draft, Message
from ackbus.errors import LimitReached
from ackbus.subscribers.jobs.claims import Claim, Outcome
from ackbus.subscribers.jobs.errors import ClaimLost, WrongJobState
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import Queues

from .queue_model import ENDED_BADLY, Job, QueueModel, Sent
from .queue_model import Claim as ClaimModel

QUEUES = ["first", "second"]
#: Types that both queues take in, and one that neither does.
PATTERN, TAKEN_IN, OTHER = "work.*", ["work.a", "work.b"], "note"

names = st.sampled_from(QUEUES)
rules_of_policies: dict[str, st.SearchStrategy[Any]] = {
    "ordering": st.sampled_from(["fifo", "priority"]),
    "ageing_s": st.sampled_from([1.0, 5.0]),
    "retry": st.sampled_from(["failures", "asked"]),
    "max_attempts": st.integers(1, 3),
    "backoff_s": st.sampled_from([0.0, 1.0]),
    "on_lost": st.sampled_from(["requeue", "requeue", "fail", "dead"]),
    "max_running": st.sampled_from([None, None, 1, 3]),
    "max_running_per_key": st.integers(1, 2),
    "dedupe_window_s": st.sampled_from([0.0, 2.0, 10.0]),
}
policies = st.fixed_dictionaries(rules_of_policies)
changes = st.sampled_from([*sorted(rules_of_policies), *["ordering"] * 4]).flatmap(
    lambda name: st.fixed_dictionaries({name: rules_of_policies[name]})
)
windows_s = st.sampled_from([None, None, 0.0, 5.0])
#: How a worker ends a claim: the method below, and what it is told.
ends = st.one_of(
    st.tuples(st.just("complete"), st.sampled_from([None, OTHER, TAKEN_IN[1]])),
    st.tuples(
        st.just("fail"),
        st.sampled_from(["failed", "timed_out"]),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, 0.0, 4.0]),
    ),
    st.tuples(st.sampled_from(["release", "cancel"])),
)


def last_words(message: Message, state: str, why: str) -> list[Draft]:
    return [Draft(OTHER, [message.seq, state], from_agent="sweeper")]


class Work(RuleBasedStateMachine):
    """Two queues of different policies on one pattern, a clock that only the machine moves.

    Hypothesis often leaves whole rules out of a run, so each of them does something by itself.
    """

    @initialize(first=policies, second=policies, most=st.sampled_from([None, None, 8]))
    def open_bus(self, first: dict[str, Any], second: dict[str, Any], most: int | None) -> None:
        self.folder = tempfile.mkdtemp(prefix="ackbus-model-")
        self.now_ms = 1_000_000
        self.bus = Bus.init(self.folder, clock=lambda: self.now_ms)
        rules = dict(zip(QUEUES, [first, second], strict=True))
        self.queues = {name: Queue.create(self.bus, name, PATTERN, **rules[name]) for name in rules}
        self.controls = {name: JobControl(queue) for name, queue in self.queues.items()}
        self.models = {name: QueueModel(rules[name]) for name in rules}
        self.claims: list[Claim] = []
        self.published = 0
        #: The jobs that people have tried again, or given up.
        self.touched: set[tuple[str, int]] = set()
        for key, priority, delay_ms in [
            *[(None, 2, 0), ("k", 1, 0), ("k", 2, 0)],
            *[("k", 0, 0), (None, 0, 1500), ("l", 0, 0)],
        ]:
            self._publish(TAKEN_IN[0], priority, delay_ms, key, None)
        if most is not None:
            self.set_limit("first", most)

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.close()
            shutil.rmtree(self.folder)

    # Publishing and time -----------------------------------------------------------------------

    @rule(
        type=st.sampled_from(TAKEN_IN),
        priority=st.integers(0, 2),
        delay_ms=st.sampled_from([0, 0, 0, 1, 3000]),
        key=st.sampled_from([None, "k", "l"]),
        window_s=windows_s,
    )
    def publish(
        self, type: str, priority: int, delay_ms: int, key: str | None, window_s: float | None
    ) -> None:
        self._publish(type, priority, delay_ms, key, None if key is None else window_s)

    @rule(name=names, own_s=windows_s, late_ms=st.sampled_from([0, 0, 1]))
    def repeat_a_success(self, name: str, own_s: float | None, late_ms: int) -> None:
        """Publish what is about the same as a success, at the end of its window or just after."""
        model = self.models[name]
        done = [job for job in model.jobs.values() if job.state == "succeeded" and job.sent.key]
        for job in done[-1:]:
            window_s = model.policy.dedupe_window_s if own_s is None else own_s
            at_ms = (job.ended_at_ms or 0) + round(window_s * 1000) + late_ms
            self.now_ms = max(self.now_ms, at_ms)
            self._publish(TAKEN_IN[0], 1, 0, job.sent.key, own_s)

    @rule(own_s=st.sampled_from([None, 5.0, 5.0]))
    def repeat_what_runs(self, own_s: float | None) -> None:
        """Publish what is about the same as a running job, which then succeeds."""
        for claim in reversed(self.claims):
            key = self.models[claim.queue].jobs[claim.message.seq].sent.key
            if key is not None and self._model(claim).is_live(self.now_ms):
                self._publish(TAKEN_IN[0], 1, 0, key, own_s)
                self.now_ms += 1
                self._end(claim, ("complete", None))
                return

    def _publish(
        self, type: str, priority: int, delay_ms: int, key: str | None, window_s: float | None
    ) -> None:
        due_ms = self.now_ms + delay_ms if delay_ms else None
        headers = work_headers(available_at_ms=due_ms, dedupe_key=key, dedupe_window_s=window_s)
        with self._refused_if(LimitReached, not self._has_room(type)):
            self.bus.publish(type, from_agent="boss", priority=priority, headers=headers)
            window_ms = None if window_s is None else round(window_s * 1000)
            self._came_in(type, priority, due_ms or 0, key, window_ms)

    def _came_in(self, type: str, *wishes: Any) -> None:
        self.published += 1
        if type in TAKEN_IN:
            for model in self.models.values():
                model.unfilled.append(Sent(self.published, self.now_ms, *wishes))

    def _has_room(self, type: str) -> bool:
        return type == OTHER or all(model.has_room() for model in self.models.values())

    @rule(milliseconds=st.sampled_from([1, 999, 2000, 20_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(milliseconds=st.sampled_from([500, 5000]))
    def clock_is_set_back(self, milliseconds: int) -> None:
        self.now_ms -= milliseconds

    @rule(name=names, early_ms=st.sampled_from([0, 0, 1]))
    def time_passes_to_the_next_change(self, name: str, early_ms: int) -> None:
        """Exactly to where a lease runs out or a delay ends, or to just before."""
        at_ms = self.models[name].next_change_ms()
        assert self.queues[name].next_change_ms() == at_ms
        self.now_ms = max(self.now_ms, (at_ms or 0) - early_ms)

    # Workers -----------------------------------------------------------------------------------

    @rule(name=names, limit=st.integers(1, 3), lease_s=st.sampled_from([1, 3, 60]))
    def claim(self, name: str, limit: int, lease_s: int) -> None:
        self._claim(name, limit, lease_s)

    @rule(name=names, limit=st.integers(1, 3), how=ends)
    def claim_and_end(self, name: str, limit: int, how: tuple[Any, ...]) -> None:
        for claim in self._claim(name, limit, 1):
            self._end(claim, how)

    def _claim(self, name: str, limit: int, lease_s: int) -> list[Claim]:
        taken, given_up = self.models[name].claim(limit, self.now_ms)
        claims = self.queues[name].claim(
            "worker", limit=limit, lease_s=lease_s, last_words=last_words
        )
        for _ in given_up:
            self._came_in(OTHER)
        assert [(claim.message.seq, claim.attempt) for claim in claims] == [
            (job.sent.seq, job.attempt) for job in taken
        ]
        for claim in claims:
            assert all(claim.token > earlier.token for earlier in self.claims), "tokens only grow"
            assert claim.lease_until_ms == self.now_ms + lease_s * 1000
            assert (claim.message.attempt, claim.message.token) == (claim.attempt, claim.token)
            self.models[name].claims[claim.token] = ClaimModel(
                claim.message.seq, claim.attempt, claim.lease_until_ms
            )
            self.claims.append(claim)
        most = self.models[name].policy.max_running
        assert not claims or most is None or len(self.models[name].active()) <= most
        return claims

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), lease_s=st.sampled_from([1, 10]))
    def renew(self, data: st.DataObject, lease_s: int) -> None:
        claim = self._draw(data)
        model = self._model(claim)
        with self._refused_if(ClaimLost, not model.is_live(self.now_ms)):
            self.queues[claim.queue].renew(claim, lease_s=lease_s)
            model.until_ms = self.now_ms + lease_s * 1000

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), how=ends)
    def end(self, data: st.DataObject, how: tuple[Any, ...]) -> None:
        """In time or late, once or again."""
        self._end(self._draw(data), how)

    def _draw(self, data: st.DataObject) -> Claim:
        """A claim of any age, often one that has not ended: only a held one can do anything."""
        active = [claim for claim in self.claims if self._model(claim).status == "active"]
        of_any_age = st.sampled_from(self.claims)
        return data.draw(st.sampled_from(active) | of_any_age if active else of_any_age)

    def _model(self, claim: Claim) -> ClaimModel:
        return self.models[claim.queue].claims[claim.token]

    def _end(self, claim: Claim, how: tuple[Any, ...]) -> None:
        name, *told = how
        is_live = self._model(claim).is_live(self.now_ms)
        with self._refused_if(ClaimLost, not is_live):
            getattr(self, f"_{name}")(claim, self.queues[claim.queue], *told)

    def _complete(self, claim: Claim, queue: Queue, reply: str | None) -> None:
        """With a reply that may be work itself, or without."""
        replies = [] if reply is None else [Draft(reply, from_agent="worker")]
        # A running job does not wait: its end makes no room.
        is_full = reply is not None and not self._has_room(reply)
        with self._refused_if(LimitReached, is_full):
            receipts = queue.complete(claim, *replies, result="done")
            assert self.models[queue.name].end(self._model(claim), "completed", None, self.now_ms)
            for receipt, draft in zip(receipts, replies, strict=True):
                self._came_in(draft.type)
                assert receipt.seq == self.published

    def _fail(
        self, claim: Claim, queue: Queue, status: str, retry: bool | None, after_s: float | None
    ) -> None:
        model = self.models[queue.name]
        outcome = Outcome(status=status, error="no", retry=retry, retry_after_s=after_s)
        receipts = queue.end(claim, outcome, [Draft(OTHER, from_agent="worker")])
        is_over = model.end(self._model(claim), status, retry, self.now_ms)
        assert len(receipts) == is_over, "an answer when the job is over, and only then"
        if is_over:
            self._came_in(OTHER)
            return
        # The pause has a random part: read it, and hold it against the rule.
        at_ms = Jobs.of(queue.bus).get(queue.info, claim.message.seq).available_at_ms
        shortest_ms, longest_ms = model.pauses_ms(claim.attempt, after_s)
        assert shortest_ms <= at_ms - self.now_ms <= longest_ms
        model.again(self._model(claim), at_ms, self.now_ms)

    def _release(self, claim: Claim, queue: Queue) -> None:
        queue.release(claim)
        self.models[queue.name].release(self._model(claim), self.now_ms)

    def _cancel(self, claim: Claim, queue: Queue) -> None:
        queue.cancel(claim, "no use")
        self.models[queue.name].give_up(self._model(claim), self.now_ms)

    # People ------------------------------------------------------------------------------------

    @rule(name=names, data=st.data())
    def cancel(self, name: str, data: st.DataObject) -> None:
        model = self.models[name]
        if (job := self._draw_job(model, data)) is None:
            return
        with self._refused_if(WrongJobState, job.state in ("succeeded", "cancelled")):
            model.fill(self.now_ms)  # as both acts do first, whether or not they are refused
            self.controls[name].cancel(job.sent.seq)
            model.cancel([job.sent.seq], self.now_ms)
            self.touched.add((name, job.sent.seq))

    @rule(name=names, data=st.data())
    def retry(self, name: str, data: st.DataObject) -> None:
        model = self.models[name]
        if (job := self._draw_job(model, data)) is None:
            return
        is_delayed = (job.state, job.gate) == ("queued", "time")
        can_be = is_delayed or job.state in (*ENDED_BADLY, "cancelled")
        with self._refused_if(WrongJobState, not can_be):
            model.fill(self.now_ms)
            self.controls[name].retry(job.sent.seq)
            model.retry(job.sent.seq, self.now_ms)
            self.touched.add((name, job.sent.seq))

    def _draw_job(self, model: QueueModel, data: st.DataObject) -> Job | None:
        """Any job of a queue, the ones that ended badly first in line."""
        jobs = sorted(model.jobs.values(), key=lambda job: job.state not in ENDED_BADLY)
        return data.draw(st.sampled_from(jobs)) if jobs else None

    @rule(name=names, act=st.sampled_from(["pause", "resume", "resume", "fill", "purge"]))
    def run_a_queue(self, name: str, act: str) -> None:
        model = self.models[name]
        if act in ("pause", "resume"):
            getattr(Queues(self.bus), act)(name)
            model.is_paused = act == "pause"
            return
        model.fill(self.now_ms)
        self.queues[name].fill()
        if act == "purge" and self.published > 12:
            waiting = [job.sent.seq for job in model.queued()]
            assert self.controls[name].purge() == len(waiting)
            model.cancel(waiting, self.now_ms)

    @rule(name=names, rules=changes, is_running=st.booleans())
    def change_the_policy(self, name: str, rules: dict[str, Any], is_running: bool) -> None:
        """Also while a job runs, which then waits again."""
        claims = self._claim(name, 1, 60) if is_running else []
        change_policy(self.bus, name, **rules)
        self.models[name].change(rules)
        for claim in claims:
            self._end(claim, ("release",))

    @rule(name=names, most=st.sampled_from([None, 2, 8]))
    def set_limit(self, name: str, most: int | None) -> None:
        model = self.models[name]
        if most is not None:
            self.controls[name].limit(most)
            model.fill(self.now_ms)
        elif model.max_waiting is not None:
            self.bus.limits.clear("queue", name)
        model.max_waiting = most

    @contextlib.contextmanager
    def _refused_if(self, kind: type[Exception], is_refused: bool) -> Iterator[None]:
        """The act inside is refused with this error if the model says so, and only then."""
        try:
            yield
        except kind:
            assert is_refused, f"{kind.__name__}, but the model allows it"
        else:
            assert not is_refused, f"done, but the model says {kind.__name__}"
