"""Several queues as one: the lowest seq first, and each queue's own limits."""

from pathlib import Path

import pytest

from ackbus import Bus, Draft, Policy, Queue
from ackbus.errors import Refused
from ackbus.schema.queries import engine_of
from ackbus.subscribers.queues.queue_set import QueueSet

from ..performance.statements import watching


def queues(bus: Bus, *names: str, **rules: object) -> QueueSet:
    for name in names:
        Queue.create(bus, name, f"{name}.*", hides="all", addressed="automation", **rules)  # type: ignore[arg-type]
    return QueueSet(bus, names)


def publish(bus: Bus, *types: str, **headers: object) -> list[int]:
    return [
        bus.log.append([_draft(type, headers)])[0].seq  # nobody is warned of the recipient
        for type in types
    ]


def _draft(type: str, headers: dict[str, object]) -> Draft:
    return Draft(type, from_agent="me", to_agent="automation", headers=headers or None)


def claim(some: QueueSet, limit: int = 10) -> list[int]:
    return [each.message.seq for each in some.claim("here", group="automation", limit=limit)]


def test_lowest_seq_over_all_queues_is_claimed_first(bus: Bus) -> None:
    """D-16."""
    some = queues(bus, "work.a", "work.b", "work.c")
    seqs = publish(bus, "work.c.poll", "work.a.poll", "work.b.poll", "work.a.poll")
    assert claim(some, 3) == seqs[:3]
    assert claim(some) == seqs[3:]


def test_full_queue_is_skipped(bus: Bus) -> None:
    """D-31: the others go on, and it goes on when a job of it has ended."""
    some = queues(bus, "work.a", "work.b", max_running=1)
    first, second, third = publish(bus, "work.a.poll", "work.a.poll", "work.b.poll")
    (a, b) = some.claim("here", group="automation", limit=10)
    assert (a.message.seq, b.message.seq) == (first, third)
    Queue.open(bus, "work.a").complete(a)
    assert claim(some) == [second]


def test_delayed_job_does_not_block_those_behind_it(bus_dir: Path) -> None:
    """D-33."""
    now = [1_000_000]
    with Bus.open(bus_dir, clock=lambda: now[0]) as bus:
        some = queues(bus, "work.a")
        (later,) = publish(bus, "work.a.poll", available_at_ms=now[0] + 5000)
        (soon,) = publish(bus, "work.a.poll")
        assert claim(some) == [soon]
        assert some.next_due_ms == now[0] + 5000
        now[0] += 5000
        assert claim(some) == [later]


def test_jobs_with_one_key_run_one_by_one(bus: Bus) -> None:
    """D-25, D-26: of one target; those of another target are not held back."""
    some = queues(bus, "work.a", "work.b")
    first, _, other = publish(bus, "work.a.poll", "work.a.poll", "work.b.poll", dedupe_key="poll:k")
    assert claim(some) == [first, other]


def test_what_others_publish_is_found_by_one_look_at_the_log(bus: Bus, bus_dir: Path) -> None:
    some = queues(bus, *(f"work.p{number}" for number in range(50)))
    assert claim(some) == []
    with Bus.open(bus_dir) as other:
        (seq,) = publish(other, "work.p7.poll")
        publish(other, "note")
    assert claim(some) == [seq]


def test_messages_are_read_once_to_be_claimed(bus: Bus, bus_dir: Path) -> None:
    queues(bus, "work.a", "work.b")
    seqs = publish(bus, "work.a.poll", "work.b.poll", "work.a.poll")
    with watching() as seen, Bus.open(bus_dir) as own:
        assert claim(QueueSet(own, ["work.a", "work.b"])) == seqs
    assert "bus.message_by_seq" not in seen.names


def test_what_refuses_a_host_is_asked_in_the_transaction_that_claims(bus: Bus) -> None:
    some = queues(bus, "work.a")
    (seq,) = publish(bus, "work.a.poll")
    asked = []

    def refuse() -> None:
        asked.append(engine_of(bus).writing)
        raise Refused("another host has begun")

    with pytest.raises(Refused, match="another host"):
        some.claim("here", group="automation", limit=1, check=refuse)
    assert asked == [True]
    assert Queue.open(bus, "work.a").jobs.get(seq).state == "queued"
    assert claim(some) == [seq]


def test_paused_queue_hands_out_nothing(bus: Bus) -> None:
    some = queues(bus, "work.a", "work.b")
    _, b = publish(bus, "work.a.poll", "work.b.poll")
    from ackbus.subscribers.queues.queues import Queues

    Queues(bus).pause("work.a")
    assert claim(some) == [b]


def test_no_other_worker_claims_from_a_queue_of_the_automation(bus: Bus) -> None:
    """It would not know the limits over all queues."""
    queues(bus, "work.a")
    publish(bus, "work.a.poll")
    with pytest.raises(Refused, match="'bus automation start', and by no other worker"):
        Queue.open(bus, "work.a").claim("me")


def test_lost_owner_counts_an_attempt_and_after_the_last_the_job_is_dead(bus: Bus) -> None:
    """D-133, X-33: attempt + 1 up to the most is queued again, and above it dead."""
    some = queues(bus, "work.a", max_attempts=4)
    publish(bus, "work.a.poll")
    jobs = Queue.open(bus, "work.a").jobs
    found = []
    for _ in range(4):
        assert len(claim(some)) == 1
        (job,) = jobs.lose_running("the service ended")
        found.append((job.state, job.attempt, job.error))
    assert found == [
        ("queued", 2, "the service ended"),
        ("queued", 3, "the service ended"),
        ("queued", 4, "the service ended"),
        ("dead", 4, "the service ended"),
    ]
    assert claim(some) == []


def test_waiting_jobs_can_be_made_dead_letters(bus: Bus) -> None:
    """R-15."""
    some = queues(bus, "work.a")
    (first,) = publish(bus, "work.a.poll")
    assert claim(some) == [first]
    seqs = publish(bus, "work.a.poll", "work.a.poll")
    jobs = Queue.open(bus, "work.a").jobs
    assert jobs.bury("plugin removed") == 2
    assert [(jobs.get(seq).state, jobs.get(seq).error) for seq in seqs] == [
        ("dead", "plugin removed")
    ] * 2
    assert jobs.get(first).state == "running"


def test_policy_says_who_may_claim() -> None:
    Policy(addressed="automation").refuse_others("work.a", "automation")
    Policy(addressed="crew").refuse_others("work", "me")
