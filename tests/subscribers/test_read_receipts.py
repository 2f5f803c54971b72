"""Issue 19, item 5: senders see who has read what, from cursors, with no message for it."""

import pytest

from ackbus import Bus, Draft, Inbox, Queue, Request
from ackbus.errors import NotFound
from ackbus.export.archive_writer import Archiver
from ackbus.subscribers.overview.retention import Retention


def states(bus: Bus, seq: int) -> dict[str, str]:
    return {f"{each.kind} {each.name}": each.state for each in bus.read_receipts(seq)}


@pytest.fixture
def bus(bus: Bus) -> Bus:
    """A bus with three readers and a sender."""
    for agent in ("ann", "bob", "cid", "lead"):
        bus.heartbeats.beat(agent)
        Inbox(bus, agent).join()
    return bus


def test_recipient_alone_reads_what_is_addressed(bus: Bus) -> None:
    bus.publish("t", from_agent="lead", to_agent="ann")
    assert states(bus, 1) == {"inbox ann": "unread"}
    Inbox(bus, "bob").ack(1)
    assert states(bus, 1) == {"inbox ann": "unread"}
    Inbox(bus, "ann").ack(1)
    assert states(bus, 1) == {"inbox ann": "acknowledged"}
    assert bus.log.newest_seq() == 1


def test_recipient_that_never_joined_has_not_read(bus: Bus) -> None:
    bus.publish_many([Draft("t", from_agent="lead", to_agent="lead"), Draft("t", from_agent="new")])
    bus.heartbeats.beat("late")
    bus.publish("t", from_agent="lead", to_agent="late")
    assert states(bus, 3) == {"inbox late": "unread"}
    assert states(bus, 1) == {"inbox lead": "unread"}


def test_broadcast_is_read_by_all_that_want_it_but_its_sender(bus: Bus) -> None:
    Inbox(bus, "bob").want("other.*", "note")
    Inbox(bus, "cid").want("task.>")
    bus.publish("task.done", from_agent="lead")
    bus.publish("note", from_agent="lead")
    bus.publish("agent_started", from_agent="lead")
    Inbox(bus, "ann").ack(1)
    assert states(bus, 1) == {"inbox ann": "acknowledged", "inbox cid": "unread"}
    assert states(bus, 2) == {"inbox ann": "unread", "inbox bob": "unread"}
    assert states(bus, 3) == {}


def test_parked_message_is_told_until_it_is_acknowledged(bus: Bus) -> None:
    bus.publish("t", from_agent="lead", to_agent="ann")
    inbox = Inbox(bus, "ann", max_deliveries=1)
    inbox.fail(inbox.poll()[0], "no")
    assert states(bus, 1) == {"inbox ann": "parked"}
    inbox.requeue(1)
    assert states(bus, 1) == {"inbox ann": "unread"}
    inbox.ack(1)
    assert states(bus, 1) == {"inbox ann": "acknowledged"}


def test_answer_that_was_waited_for_is_received(bus: Bus) -> None:
    sent = Request.send(bus, "x.request", from_agent="ann", to_agent="lead")
    message = bus.get(sent.seq)
    assert message is not None
    bus.publish_many([message.reply("x.done", 1)])
    assert states(bus, 2) == {"inbox ann": "unread"}
    sent.wait()
    assert states(bus, 2) == {"inbox ann": "received"}


def test_work_has_the_state_of_its_job_and_is_in_no_inbox(bus: Bus) -> None:
    queue = Queue.create(bus, "build", addressed="*")
    copy = Queue.create(bus, "copy", ">", hides="none")
    bus.publish("build", from_agent="lead")
    bus.publish("build", from_agent="lead", to_agent="ann")
    bus.publish("note", from_agent="lead", to_agent="ann")
    assert states(bus, 1) == {"queue build": "queued", "queue copy": "queued"}  # nobody has looked
    assert states(bus, 2) == {"inbox ann": "unread", "queue build": "queued"}
    (claim,) = queue.claim("ann")
    assert states(bus, 1) == {"queue build": "running", "queue copy": "queued"}
    queue.complete(claim)
    copy.fill()
    assert states(bus, 1) == {"queue build": "succeeded", "queue copy": "queued"}
    assert states(bus, 3) == {"inbox ann": "unread"}


def test_archived_message_has_its_readers_still(bus: Bus) -> None:
    queue = Queue.create(bus, "build")
    bus.publish("t", from_agent="lead")
    bus.publish("build", from_agent="lead")
    bus.publish("t", from_agent="lead", to_agent="bob")
    bus.publish("t", from_agent="lead")
    queue.complete(*queue.claim("ann"))
    for agent in ("ann", "cid"):
        Inbox(bus, agent).ack(3)
    retention = Retention(bus, idle_after_s=0)
    plan = retention.plan(3, pass_over=["bob", "lead"])
    retention.pass_over(plan)
    with Archiver(bus) as archiver:
        archiver.archive(plan.upto_seq)
    assert bus.log.is_work(3) is None
    assert states(bus, 1) == {
        "inbox ann": "acknowledged",
        "inbox bob": "passed_over",
        "inbox cid": "acknowledged",
    }
    assert states(bus, 2) == {"queue build": "succeeded"}
    assert states(bus, 3) == {"inbox bob": "passed_over"}


@pytest.mark.parametrize("key", [0, 9, -1, 2**70, "nobody", ""])
def test_message_that_is_not_there_is_not_found(bus: Bus, key: int | str) -> None:
    bus.publish("t", from_agent="lead", id="i")
    assert bus.read_receipts("i") == bus.read_receipts(1) == bus.read_receipts("1")
    with pytest.raises(NotFound, match="no message"):
        bus.read_receipts(key)
