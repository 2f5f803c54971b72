"""Queues and agents that are gone for good: removed, forgotten; the log keeps all of it."""

import pytest

from ackbus import Bus, Inbox, Queue
from ackbus.errors import JobNotFound, NotFound, QueueNotFound, Refused
from ackbus.subscribers.overview.agents import forget_agent
from ackbus.subscribers.overview.retention import Retention
from ackbus.subscribers.queues.queue_set import remove_queue
from ackbus.subscribers.queues.queues import Queues


def test_messages_after_a_removed_queue_are_mail(bus: Bus) -> None:
    Inbox(bus, "ann").join()
    Queue.create(bus, "build")
    bus.publish("build", 1, from_agent="lead")
    queue = Queue.open(bus, "build")
    queue.complete(*queue.claim("w"))
    remove_queue(bus, "build")
    bus.publish("build", 2, from_agent="lead")
    assert [message.payload for message in Inbox(bus, "ann").poll()] == [2]


def test_history_of_a_removed_queue_stays_under_the_name_that_is_told(bus: Bus) -> None:
    queue = Queue.create(bus, "build")
    seq = bus.publish("build", 1, from_agent="lead").seq
    queue.complete(*queue.claim("w"))
    kept = remove_queue(bus, "build")
    assert Queues(bus).list() == []
    with pytest.raises(QueueNotFound):
        Queue.open(bus, "build")
    assert Queue.open(bus, kept).jobs.get(seq).state == "succeeded"


def test_a_queue_in_which_work_waits_or_runs_is_not_removed(bus: Bus) -> None:
    queue = Queue.create(bus, "build")
    bus.publish("build", 1, from_agent="lead")
    with pytest.raises(Refused, match="1 waiting and 0 running jobs; see 'bus job list"):
        remove_queue(bus, "build")
    (claim,) = queue.claim("w")
    with pytest.raises(Refused, match="0 waiting and 1 running"):
        remove_queue(bus, "build")
    queue.complete(claim)
    remove_queue(bus, "build")


def test_the_name_of_a_removed_queue_is_free(bus: Bus) -> None:
    for pattern in ("build.*", "other.*", "build.*"):
        Queue.create(bus, "work", pattern, start="now")
        remove_queue(bus, "work")
    assert Queue.create(bus, "work", "third.*").info.pattern == "third.*"


def test_a_limit_goes_with_its_queue(bus: Bus) -> None:
    Queue.create(bus, "build").jobs.limit(3)
    remove_queue(bus, "build")
    assert bus.limits.list() == []


def test_a_worker_of_a_removed_queue_is_told(bus: Bus) -> None:
    queue = Queue.create(bus, "build")
    remove_queue(bus, "build")
    bus.publish("build", 1, from_agent="lead")
    with pytest.raises(QueueNotFound):
        queue.claim("w")
    with pytest.raises((QueueNotFound, JobNotFound)):
        queue.jobs.get(1)


def test_a_forgotten_agent_holds_no_archive_and_begins_again(bus: Bus) -> None:
    for number in range(5):
        bus.publish("note", number, from_agent="lead")
    inbox = Inbox(bus, "ann")
    inbox.ack(2)
    inbox.fail(inbox.poll(1)[0], "no")
    bus.heartbeats.beat("ann", "offline")
    Inbox(bus, "bob").ack(4)
    assert Retention(bus).plan(5).upto_seq == 2
    forget_agent(bus, "ann")
    assert Retention(bus).plan(5).upto_seq == 4
    assert bus.heartbeats.get("ann") is None
    assert [m.seq for m in Inbox(bus, "ann").poll()] == [1, 2, 3, 4, 5]
    assert "ann" not in bus.agents.names()


def test_an_agent_that_is_there_is_not_forgotten(bus: Bus) -> None:
    bus.heartbeats.beat("ann")
    with pytest.raises(Refused, match="'ann' is alive: its heart beat 0 s ago"):
        forget_agent(bus, "ann")
    with pytest.raises(NotFound, match="never seen an agent 'anm'; did you mean ann"):
        forget_agent(bus, "anm")
    bus.publish("note", from_agent="lead")
    Inbox(bus, "bob")._begin()
    with pytest.raises(Refused, match="'bob' is alive: its delivery loop runs"):
        forget_agent(bus, "bob")
