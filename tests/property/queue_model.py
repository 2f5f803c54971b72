"""The promises of a queue, in plain Python: messages become jobs, which are worked on in claims.

The model is told when things happen, and never looks at the bus. Times are epoch milliseconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ackbus.subscribers.jobs.policy import Policy

LIVE = ("queued", "running")
ENDED_BADLY = ("failed", "timed_out", "dead")


@dataclass(frozen=True)
class Sent:
    """A message that the queue takes in."""

    seq: int
    ts_ms: int
    priority: int = 1
    available_at_ms: int = 0
    key: str | None = None
    window_ms: int | None = None


@dataclass
class Job:
    """A message in the queue. Its gate says what it waits for while it is queued."""

    sent: Sent
    max_attempts: int
    state: str = "queued"
    gate: str = "open"
    attempt: int = 1
    available_at_ms: int = 0
    ended_at_ms: int | None = None
    turn_ms: int = 0
    rank_ms: int = 0
    #: What a duplicate may be called a duplicate of.
    originals: list[int] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int]:
        return self.rank_ms, self.sent.seq


@dataclass
class Claim:
    """An attempt."""

    seq: int
    attempt: int
    until_ms: int
    status: str = "active"

    def is_live(self, now_ms: int) -> bool:
        return self.status == "active" and self.until_ms > now_ms


class QueueModel:
    """One queue, and what each act does to it."""

    def __init__(self, rules: dict[str, Any]) -> None:
        self.policy = Policy(**rules)
        self.unfilled: list[Sent] = []
        self.jobs: dict[int, Job] = {}
        #: By token, in the order of granting.
        self.claims: dict[int, Claim] = {}
        #: The queue's own clock, which never goes back, and by how much it is ahead.
        self.clock_ms = self.ahead_ms = 0
        self.is_paused = False
        self.max_waiting: int | None = None

    # Looking -----------------------------------------------------------------------------------

    def queued(self, gate: str | None = None) -> list[Job]:
        """In the order of claiming."""
        found = (j for j in self.jobs.values() if j.state == "queued" and gate in (None, j.gate))
        return sorted(found, key=lambda job: job.order)

    def with_key(self, key: str | None) -> list[Job]:
        """The live jobs with a key."""
        found = (job for job in self.jobs.values() if job.state in LIVE)
        return [] if key is None else [job for job in found if job.sent.key == key]

    def active(self) -> list[Claim]:
        return [claim for claim in self.claims.values() if claim.status == "active"]

    def waiting(self) -> int:
        """The jobs that count for the limit."""
        return len(self.unfilled) + len(self.queued())

    def next_change_ms(self) -> int | None:
        """When a delay ends or a lease runs out next."""
        delays = [job.available_at_ms for job in self.queued("time")]
        return min([*delays, *(claim.until_ms for claim in self.active())], default=None)

    def has_room(self) -> bool:
        return self.max_waiting is None or self.waiting() < self.max_waiting

    # Taking in ---------------------------------------------------------------------------------

    def fill(self, now_ms: int) -> None:
        if not self.unfilled:
            return
        self.ahead_ms = max(self.ahead_ms, self.clock_ms - now_ms)
        for sent in self.unfilled:
            self.jobs[sent.seq] = job = Job(sent, self.policy.max_attempts)
            created_ms = min(sent.ts_ms, now_ms)
            job.available_at_ms = max(created_ms, sent.available_at_ms)
            job.turn_ms = self.clock_ms = max(self.clock_ms, created_ms + self.ahead_ms)
            self._rank(job)
            job.originals = self._originals(sent, now_ms)
            if job.originals:
                job.state, job.ended_at_ms = "cancelled", now_ms
            elif sent.available_at_ms > now_ms:
                job.gate = "time"
            else:
                self._queue_at_gate(job)
        self.unfilled.clear()

    def _originals(self, sent: Sent, now_ms: int) -> list[int]:
        """The jobs of which a message may be called a duplicate."""
        own_window = sent.window_ms is not None
        window_ms = sent.window_ms if own_window else round(self.policy.dedupe_window_s * 1000)
        assert window_ms is not None
        live = [job.sent.seq for job in self.with_key(sent.key) if job.sent.seq != sent.seq]
        if sent.key is None or (own_window and live):
            return live if own_window else []
        until_ms = max(now_ms, sent.ts_ms) if own_window else sent.ts_ms
        return [
            job.sent.seq
            for job in self.jobs.values()
            if (job.sent.key, job.state) == (sent.key, "succeeded")
            and window_ms > 0
            and sent.ts_ms - window_ms <= (job.ended_at_ms or 0) <= until_ms
        ]

    def _rank(self, job: Job) -> None:
        is_ranked = self.policy.ordering == "priority"
        step_ms = round(self.policy.ageing_s * 1000)
        job.rank_ms = job.turn_ms + job.sent.priority * step_ms if is_ranked else 0

    # Claiming ----------------------------------------------------------------------------------

    def claim(self, limit: int, now_ms: int) -> tuple[list[Job], list[Job]]:
        """Return the jobs that now run, in order, and those that ended since nobody kept them."""
        due = [job for job in self.queued("time") if job.available_at_ms <= now_ms]
        is_lost = any(claim.until_ms <= now_ms for claim in self.active())
        if self._is_shut() and not (due or is_lost):
            return [], []
        if self.policy.ordering == "priority" or len(self.queued("open")) < limit:
            self.fill(now_ms)
        given_up = self._recover(now_ms)
        for job in due:
            self._queue_at_gate(job, let_in=False)
        for job in due:
            self._let_in(job.sent.key)
        if self.policy.max_running is not None:
            limit = min(limit, self.policy.max_running - len(self.active()))
        taken = [] if self.is_paused else self.queued("open")[: max(0, limit)]
        for job in taken:
            job.state = "running"
        return taken, given_up

    def _is_shut(self) -> bool:
        most = self.policy.max_running
        return self.is_paused or (most is not None and len(self.active()) >= most)

    def _recover(self, now_ms: int) -> list[Job]:
        given_up = []
        expired = [claim for claim in self.active() if claim.until_ms <= now_ms]
        for claim in sorted(expired, key=lambda claim: claim.until_ms):
            claim.status = "lost"
            job = self.jobs[claim.seq]
            if self.policy.on_lost == "requeue" and job.attempt < job.max_attempts:
                self._queue_again(job, job.attempt + 1, now_ms, now_ms)
            else:
                self._end(job, "failed" if self.policy.on_lost == "fail" else "dead", now_ms)
                given_up.append(job)
        return given_up

    # Ending ------------------------------------------------------------------------------------

    def end(self, claim: Claim, status: str, retry: bool | None, now_ms: int) -> bool:
        """End a live claim; say whether its job is over. Else its time is to be told by `again`."""
        claim.status = status
        job = self.jobs[claim.seq]
        if status == "completed":
            self._end(job, "succeeded", now_ms)
            return True
        tries_again = self.policy.retry == "failures"
        if (tries_again if retry is None else retry) and job.attempt < job.max_attempts:
            return False
        self._end(job, "dead" if tries_again or retry else status, now_ms)
        return True

    def pauses_ms(self, attempt: int, after_s: float | None) -> tuple[int, int]:
        """The shortest and the longest pause after a failed attempt."""
        if after_s is not None:
            return round(after_s * 1000), round(after_s * 1000)
        base_ms = self.policy.backoff_s * 1000
        return int(base_ms * 2 ** (attempt - 1)), int(base_ms * (2 ** (attempt - 1) + 1))

    def again(self, claim: Claim, at_ms: int, now_ms: int) -> None:
        """The job of a failed claim waits until `at_ms` for its next attempt."""
        self._queue_again(self.jobs[claim.seq], claim.attempt + 1, at_ms, now_ms)

    def release(self, claim: Claim, now_ms: int) -> None:
        claim.status = "lost"
        self._queue_again(self.jobs[claim.seq], claim.attempt, now_ms, now_ms)

    def give_up(self, claim: Claim, now_ms: int) -> None:
        """The holder cancels the job of its claim."""
        claim.status = "failed"
        self._end(self.jobs[claim.seq], "cancelled", now_ms)

    # People ------------------------------------------------------------------------------------

    def cancel(self, seqs: Iterable[int], now_ms: int) -> None:
        for claim in self.active():
            if claim.seq in seqs:
                claim.status = "lost"
        for seq in seqs:
            self._end(self.jobs[seq], "cancelled", now_ms)

    def retry(self, seq: int, now_ms: int) -> None:
        job = self.jobs[seq]
        self._queue_again(job, job.attempt if job.state == "queued" else 1, now_ms, now_ms)

    def change(self, rules: dict[str, Any]) -> None:
        """Other rules, for what waits too; but a job keeps the number of its attempts."""
        self.policy = replace(self.policy, **rules)
        if "max_running_per_key" in rules:  # the same once more puts the keys in order too
            open = [job for job in self.queued("open") if job.sent.key is not None]
            for job in open:
                job.gate = "key"
        for job in self.queued():
            self._rank(job)
        for key in {job.sent.key for job in self.queued("key")}:
            self._let_in(key)

    # Gates -------------------------------------------------------------------------------------

    def _end(self, job: Job, state: str, now_ms: int) -> None:
        job.state, job.ended_at_ms = state, now_ms
        self._let_in(job.sent.key)

    def _queue_again(self, job: Job, attempt: int, at_ms: int, now_ms: int) -> None:
        job.state, job.attempt, job.ended_at_ms = "queued", attempt, None
        job.available_at_ms = at_ms
        self._rank(job)
        if at_ms > now_ms:
            job.gate = "time"
            self._let_in(job.sent.key)
        else:
            self._queue_at_gate(job)

    def _queue_at_gate(self, job: Job, *, let_in: bool = True) -> None:
        job.gate = "open" if job.sent.key is None else "key"
        if let_in:
            self._let_in(job.sent.key)

    def _let_in(self, key: str | None) -> None:
        """Open the gate for as many jobs with a key as may run at once, the first in order."""
        jobs = self.with_key(key)
        room = self.policy.max_running_per_key - sum(job.gate == "open" for job in jobs)
        held = sorted((job for job in jobs if job.gate == "key"), key=lambda job: job.order)
        for job in held[: max(0, room)]:
            job.gate = "open"
