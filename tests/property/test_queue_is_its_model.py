"""A stateful machine: whatever workers and people do, the queues and a plain model agree."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, invariant

from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.jobs import Jobs

from ..sizes import size
from .conftest import RUNS
from .queue_machine import TAKEN_IN, Work
from .queue_model import LIVE

pytestmark = pytest.mark.slow


class QueueMachine(Work):
    """The rules of `Work`, and what must be true after each of them."""

    @initialize()
    def remember(self) -> None:
        self.messages: list[Any] = []
        self.ended: dict[int, tuple[Any, ...]] = {}
        self.states: dict[tuple[str, int], str] = {}

    @invariant()
    def jobs_are_the_model(self) -> None:
        for name, model in self.models.items():
            rows = file_of(self.bus).rows(
                "SELECT seq, state, iif(state = 'queued', gate, ''), attempt, max_attempts,"
                " available_at_ms, ended_at_ms, error FROM jobs WHERE queue_id = ? ORDER BY seq",
                (self.queues[name].info.id,),
            )
            assert [row[:-1] for row in rows] == [
                (
                    job.sent.seq,
                    job.state,
                    job.gate if job.state == "queued" else "",
                    job.attempt,
                    job.max_attempts,
                    job.available_at_ms,
                    job.ended_at_ms,
                )
                for _, job in sorted(model.jobs.items())
            ]
            for seq, *_, error in rows:
                job = model.jobs[seq]
                is_duplicate = "duplicate of" in (error or "")
                if is_duplicate:
                    assert int(error.split()[2].rstrip(",")) in job.originals
                elif job.state == "cancelled":
                    assert not job.originals or (name, seq) in self.touched

    @invariant()
    def claims_are_the_model(self) -> None:
        """None disappears; one that has ended stays as it ended, but for what came late."""
        rows = file_of(self.bus).rows("SELECT * FROM claims ORDER BY token")
        columns = [row[1] for row in file_of(self.bus).rows("PRAGMA table_info(claims)")]
        ids = {queue.info.id: name for name, queue in self.queues.items()}
        assert [row[0] for row in rows] == [claim.token for claim in self.claims]
        for values in rows:
            row = dict(zip(columns, values, strict=True))
            model = self.models[ids[row["queue_id"]]].claims[row["token"]]
            stored = (row["seq"], row["attempt"], row["lease_until_ms"], row["status"])
            assert stored == (model.seq, model.attempt, model.until_ms, model.status)
            assert (row["ended_at_ms"] is None) == (model.status == "active")
            if model.status == "lost":
                for late in ("exit_code", "error", "stderr", "result", "logs"):
                    del row[late]
            if model.status != "active":
                ended = tuple(row.values())
                assert self.ended.setdefault(row["token"], ended) == ended

    @invariant()
    def one_active_claim_for_each_running_job(self) -> None:
        for model in self.models.values():
            active = Counter(claim.seq for claim in model.active())
            assert set(active.values()) <= {1}
            assert set(active) == {j.sent.seq for j in model.jobs.values() if j.state == "running"}

    @invariant()
    def what_is_over_stays_over(self) -> None:
        """Unless a person tries it again, or gives it up."""
        for name, model in self.models.items():
            for seq, job in model.jobs.items():
                before = self.states.get((name, seq), job.state)
                was_touched = (name, seq) in self.touched
                assert before in LIVE or job.state == before or was_touched
                self.states[name, seq] = job.state

    @invariant()
    def counts_are_the_model(self) -> None:
        for name, model in self.models.items():
            expected = Counter(
                job.gate if job.state == "queued" else job.state
                for job in model.jobs.values()
                if job.state not in ("succeeded", "cancelled")
            )
            counts = Jobs.of(self.queues[name].bus).counts(self.queues[name].info)
            assert Counter(counts) == expected
        limits = {
            limit.name: (limit.max_waiting, limit.waiting) for limit in self.bus.limits.list()
        }
        assert limits == {
            name: (model.max_waiting, model.waiting())
            for name, model in self.models.items()
            if model.max_waiting is not None
        }

    @invariant()
    def no_job_is_held_while_its_key_has_room(self) -> None:
        """By the tables alone: as many run, or may, as the key allows, before one is held."""
        for name, queue in self.queues.items():
            most = self.models[name].policy.max_running_per_key
            rows = file_of(self.bus).rows(
                "SELECT sum(gate = 'key'), sum(gate = 'open'), sum(state = 'running') FROM jobs"
                " WHERE queue_id = ? AND dedupe_key IS NOT NULL AND state IN ('queued', 'running')"
                " GROUP BY dedupe_key",
                (queue.info.id,),
            )
            for held, open, running in rows:
                assert running <= open <= max(most, running), "a lower limit ends nothing"
                assert open >= most or not held

    @invariant()
    def every_message_stays_and_is_a_job_in_each_queue_once(self) -> None:
        """Or it waits to be filled in, after those that are."""
        rows = file_of(self.bus).rows("SELECT seq, type, * FROM messages ORDER BY seq")
        assert len(rows) == self.published
        assert rows[: len(self.messages)] == self.messages
        self.messages = rows
        taken_in = [seq for seq, type, *_ in rows if type in TAKEN_IN]
        for model in self.models.values():
            unfilled = [sent.seq for sent in model.unfilled]
            assert [*sorted(model.jobs), *unfilled] == taken_in


class TestQueueIsItsModel(QueueMachine.TestCase):  # type: ignore[valid-type, misc]
    """K-06 to K-12, D-11, D-14 to D-16, D-19 to D-21, D-23 to D-25, D-29, D-33, D-69, D-73, Q-04.

    X-08: publishing with wishes, filling, claiming, renewing, ending in time and late, giving
    back; trying again, cancelling, pausing, purging, limits, changes of policy; two queues at once.
    """

    settings = settings(max_examples=size(sample=15, whole=250) * RUNS, stateful_step_count=40)
