"""Retention: who holds the log, who is waited for no longer, and how these learn of it."""

import io
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue, Session, Worker
from ackbus.errors import InvalidInput
from ackbus.export.archive_writer import Archiver
from ackbus.schema.errors import MailArchived
from ackbus.schema.queries import file_of
from ackbus.subscribers.inboxes.statements import SQL
from ackbus.subscribers.overview.retention import Hold, Retention

DAY_MS = 86_400_000


class Clock:
    """A clock that tests move."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(bus_dir: Path, clock: Clock) -> Iterator[Bus]:
    with Bus.open(bus_dir, clock=clock) as opened:
        yield opened


def publish(bus: Bus, count: int, to: str | None = None, type: str = "note") -> None:
    # Past the check of recipients: some are strangers.
    bus.log.append(Draft(type, n, from_agent="planner", to_agent=to) for n in range(count))


def holds(bus: Bus, **options: float) -> list[tuple[str, str, int, bool]]:
    found = Retention(bus, **options).holds()
    return [(hold.kind, hold.name, hold.seq, hold.is_living) for hold in found]


# Who holds.


def test_inbox_holds_its_first_message_that_is_not_acknowledged(bus: Bus) -> None:
    """Q-02: archive below the smallest cursor that needs something."""
    publish(bus, 5)
    Inbox(bus, "worker").ack(2)
    assert holds(bus) == [("inbox", "worker", 3, True)]
    Inbox(bus, "worker").ack(5)
    assert holds(bus) == []


def test_low_cursor_of_an_agent_without_mail_holds_nothing(bus: Bus) -> None:
    publish(bus, 1)
    Inbox(bus, "worker").ack(1)
    Inbox(bus, "planner").ack(1)
    publish(bus, 5, to="worker")
    assert holds(bus) == [("inbox", "worker", 2, True)]


def test_agent_that_never_came_holds_what_is_to_it_by_name(bus: Bus) -> None:
    publish(bus, 3)
    publish(bus, 2, to="stranger")
    assert holds(bus) == [("inbox", "stranger", 4, True)]


def test_mail_to_the_automation_holds_nothing_unless_an_agent_of_this_name_reads_it(
    bus: Bus,
) -> None:
    publish(bus, 3, to="automation")
    assert holds(bus) == []
    Inbox(bus, "automation").ack(1)
    assert holds(bus) == [("inbox", "automation", 2, True)]


def test_agent_whose_loop_runs_holds_broadcasts_before_it_acknowledged(bus: Bus) -> None:
    publish(bus, 2)
    inbox = Inbox(bus, "loops")
    inbox._begin()
    assert holds(bus) == [("inbox", "loops", 1, True)]
    inbox._end()
    assert holds(bus) == [("inbox", "loops", 1, True)]


def test_agent_that_joined_holds_broadcasts_before_it_acknowledged(bus: Bus) -> None:
    publish(bus, 2)
    with Session(bus, "sits"):
        assert holds(bus) == [("inbox", "sits", 1, True)]
    Inbox(bus, "reads").join()
    assert holds(bus) == [("inbox", "reads", 1, True), ("inbox", "sits", 1, True)]


def test_joining_moves_no_cursor(bus: Bus) -> None:
    publish(bus, 3)
    inbox = Inbox(bus, "works")
    inbox.join()
    assert (inbox.position, len(inbox.poll())) == (0, 3)
    inbox.ack(2)
    inbox.join()
    assert inbox.position == 2


def test_hearts_of_groups_exporters_and_services_hold_nothing(bus: Bus) -> None:
    """They read no mail: a worker has its queue, and the exporter the log."""
    bus.publish("job", from_agent="planner")
    Worker(bus, "job", group="crew").run(lambda message: None, drain=True)
    Exporter(bus).export_once()
    bus.heartbeats.beat("service")
    publish(bus, 2)
    assert {beat.agent for beat in bus.heartbeats.list()} == {"crew", "service"}
    assert holds(bus) == []


def test_mail_to_oneself_is_mail(bus: Bus) -> None:
    publish(bus, 1)
    Inbox(bus, "planner").ack(1)
    publish(bus, 2, to="planner")
    assert holds(bus) == [("inbox", "planner", 2, True)]


def test_fresh_mail_of_a_quiet_agent_waits(bus: Bus, clock: Clock) -> None:
    """It may be waiting for just this."""
    publish(bus, 1)
    Inbox(bus, "quiet").ack(1)
    clock.now_ms += 8 * DAY_MS
    publish(bus, 1, to="quiet")
    assert holds(bus) == [("inbox", "quiet", 2, True)]


def test_own_broadcasts_hold_nothing(bus: Bus) -> None:
    publish(bus, 1)
    Inbox(bus, "planner").ack(1)
    publish(bus, 3)
    assert holds(bus) == []


def test_broadcasts_that_an_agent_does_not_want_hold_nothing(bus: Bus) -> None:
    inbox = Inbox(bus, "worker")
    inbox.want("alarm.>")
    publish(bus, 2)
    assert holds(bus) == []
    publish(bus, 1, type="alarm.fire")
    assert holds(bus) == [("inbox", "worker", 3, True)]


def test_queue_does_not_hold_what_is_addressed_to_others(bus: Bus) -> None:
    Queue.create(bus, "job")
    publish(bus, 1, to="planner", type="job")
    Inbox(bus, "planner").ack(1)
    assert holds(bus) == []


def test_queue_holds_what_it_has_not_taken_in_and_what_is_not_over(bus: Bus) -> None:
    publish(bus, 2)
    publish(bus, 3, type="job")
    queue = Queue.create(bus, "job")
    assert holds(bus) == [("queue", "job", 3, True)]
    first, second = queue.claim("w", limit=2)
    queue.complete(first)
    assert holds(bus) == [("queue", "job", 4, True)]
    queue.complete(second)
    (third,) = queue.claim("w")
    assert holds(bus) == [("queue", "job", 5, True)]
    queue.complete(third)
    assert holds(bus) == []


# Who is waited for.


def test_agent_that_acts_is_living_and_one_that_nobody_saw_is_not(bus: Bus, clock: Clock) -> None:
    """Q-02: a dead or idle agent must not pin the log for ever."""
    publish(bus, 2)
    for name in ("beats", "acks", "sleeps"):
        Inbox(bus, name).ack(1)
    clock.now_ms += 8 * DAY_MS
    bus.heartbeats.beat("beats")
    Inbox(bus, "acks").ack(1)
    found = {name: is_living for _, name, _, is_living in holds(bus)}
    assert found == {"beats": True, "acks": True, "sleeps": False}
    assert all(is_living for *_, is_living in holds(bus, idle_after_s=9 * 86_400))


def test_mail_for_an_agent_that_never_came_waits_as_long(bus: Bus, clock: Clock) -> None:
    publish(bus, 1, to="stranger")
    assert holds(bus) == [("inbox", "stranger", 1, True)]
    clock.now_ms += 8 * DAY_MS
    assert holds(bus) == [("inbox", "stranger", 1, False)]


def test_agent_that_publishes_is_seen_and_one_that_only_polls_is_not(
    bus: Bus, clock: Clock
) -> None:
    """Polling changes nothing (promise 4), so there is nothing to see."""
    publish(bus, 3)
    for name in ("publishes", "polls"):
        Inbox(bus, name).ack(1)
    clock.now_ms += 8 * DAY_MS
    bus.publish("note", from_agent="publishes")
    assert Inbox(bus, "polls").poll() != []
    found = {name: is_living for _, name, _, is_living in holds(bus)}
    assert found == {"publishes": True, "polls": False}
    archive(bus, 4)
    clock.now_ms += 6 * DAY_MS
    publish(bus, 5)
    (hold,) = (hold for hold in Retention(bus).holds() if hold.name == "publishes")
    assert hold.seen_ms == clock.now_ms - 6 * DAY_MS
    clock.now_ms += 2 * DAY_MS
    assert {is_living for _, name, _, is_living in holds(bus) if name == "publishes"} == {False}


def test_agent_whose_last_message_is_archived_was_seen_when_it_sent_it(
    bus: Bus, clock: Clock
) -> None:
    bus.publish("note", from_agent="worker")
    publish(bus, 1, to="worker")
    sent_ms = clock.now_ms
    with Archiver(bus) as archiver:
        archiver.archive(1)
    clock.now_ms += DAY_MS
    (hold,) = Retention(bus).holds()
    assert (hold.name, hold.seen_ms) == ("worker", sent_ms)
    Path(bus.archive.path(bus.archive.segments()[0])).unlink()
    assert Retention(bus).holds() == [hold]


def test_imported_mail_waits_from_when_it_came(bus: Bus, clock: Clock) -> None:
    """However old it is: nobody here has had the time to read it."""
    line = b'{"seq":%d,"id":"old-%d","ts":"2020-01-01T00:00:00Z","from":"a","to":"b","type":"t"}\n'
    bus.import_jsonl(io.BytesIO(b"".join(line % (n, n) for n in range(3))))
    assert holds(bus) == [("inbox", "b", 1, True)]
    clock.now_ms += 8 * DAY_MS
    bus.import_jsonl(io.BytesIO(line % (9, 9)))
    assert holds(bus) == [("inbox", "b", 1, False)]
    archive(bus, 3, pass_over_idle=True)
    assert holds(bus) == [("inbox", "b", 4, True)]
    bus.import_jsonl(io.BytesIO(line % (9, 9)))  # nothing new
    clock.now_ms += 8 * DAY_MS
    assert holds(bus) == [("inbox", "b", 4, False)]


def test_steady_imports_do_not_keep_old_mail_young(bus: Bus, clock: Clock) -> None:
    """As after each merge: what came first is as old as it is, whatever came soon after."""
    line = b'{"id":"old-%d","ts":"2020-01-01T00:00:00Z","from":"a","to":"b","type":"t"}\n'
    began_ms = clock.now_ms
    for n in range(8 * 25):
        bus.import_jsonl(io.BytesIO(line % n))
        clock.now_ms += 58 * 60 * 1000
    assert Retention(bus).holds() == [Hold("inbox", "b", 1, began_ms, is_living=False)]


def test_clock_that_is_set_back_makes_no_earlier_import_older(bus: Bus, clock: Clock) -> None:
    """Nor later ones as young as the clock was wrong."""
    line = b'{"id":"%b","ts":"2020-01-01T00:00:00Z","from":"a","to":"%b","type":"t"}\n'
    bus.import_jsonl(io.BytesIO(line % (b"one", b"one")))
    came_ms = clock.now_ms
    clock.now_ms -= 100 * DAY_MS
    for n in range(2):
        bus.import_jsonl(io.BytesIO(line % (b"two-%d" % n, b"two")))
    assert {hold.name: hold.seen_ms for hold in Retention(bus).holds()} == {
        "one": came_ms,
        "two": clock.now_ms,
    }


def test_queue_from_which_nobody_claims_is_not_living(bus: Bus, clock: Clock) -> None:
    queue = Queue.create(bus, "job")
    publish(bus, 2, type="job")
    clock.now_ms += 8 * DAY_MS
    assert holds(bus) == [("queue", "job", 1, False)]
    queue.claim("w")
    assert holds(bus) == [("queue", "job", 1, True)]


def test_negative_patience_is_refused(bus: Bus) -> None:
    with pytest.raises(InvalidInput, match="idle_after_s must be 0 or more, not -1"):
        Retention(bus, idle_after_s=-1)


# What is planned, and what becomes of who is passed over.


def test_plan_ends_before_the_first_hold_of_the_living(bus: Bus, clock: Clock) -> None:
    publish(bus, 3)
    Inbox(bus, "sleeps").ack(1)
    clock.now_ms += 8 * DAY_MS
    publish(bus, 7)
    Inbox(bus, "works").ack(6)
    plan = Retention(bus).plan(9, pass_over_idle=True)
    sleeps = Hold("inbox", "sleeps", 2, clock.now_ms - 8 * DAY_MS, is_living=False)
    works = Hold("inbox", "works", 7, clock.now_ms, is_living=True)
    assert (plan.upto_seq, plan.held_by, plan.passed_over) == (6, [works], [sleeps])
    plan = Retention(bus).plan(4, pass_over_idle=True)
    assert (plan.upto_seq, plan.held_by) == (4, [])
    assert Retention(bus).plan(99, pass_over_idle=True).upto_seq == 6


def test_nobody_is_passed_over_unless_asked_for(bus: Bus, clock: Clock) -> None:
    publish(bus, 3)
    Inbox(bus, "sleeps").ack(1)
    clock.now_ms += 300 * DAY_MS
    publish(bus, 7)
    Inbox(bus, "works").ack(6)
    plan = Retention(bus).plan(9)
    assert (plan.upto_seq, plan.passed_over) == (1, [])
    assert [hold.name for hold in plan.held_by] == ["sleeps", "works"]
    assert [hold.name for hold in plan.idle] == ["sleeps"]
    plan = Retention(bus).plan(9, pass_over=["works"])
    assert (plan.upto_seq, [hold.name for hold in plan.idle]) == (1, ["sleeps"])
    plan = Retention(bus).plan(9, pass_over=["works", "sleeps"])
    assert (plan.upto_seq, plan.held_by, plan.idle) == (9, [], [])


def test_one_name_is_no_list_of_names(bus: Bus) -> None:
    """Each part of it would else be a name: "a" of "alice"."""
    with pytest.raises(InvalidInput, match=r"pass_over takes a list of agents, like \['alice'\]"):
        Retention(bus).plan(9, pass_over="alice")


def test_idle_agent_behind_a_living_one_is_in_nobodys_way(bus: Bus, clock: Clock) -> None:
    publish(bus, 9)
    Inbox(bus, "sleeps").ack(5)
    Inbox(bus, "works").ack(2)
    clock.now_ms += 8 * DAY_MS
    bus.heartbeats.beat("works")
    plan = Retention(bus).plan(9)
    assert (plan.upto_seq, plan.idle) == (2, [])


def test_agent_that_was_passed_over_holds_nothing_until_it_comes_back(
    bus: Bus, clock: Clock
) -> None:
    """One name that is never used again is let go of once, not at each archiving."""
    publish(bus, 3)
    inbox = Inbox(bus, "gone")
    inbox.join()
    archive(bus, 2, pass_over=["gone"])
    clock.now_ms += 1
    publish(bus, 4)
    plan = Retention(bus).plan(5)
    assert (plan.upto_seq, [hold.name for hold in plan.passed_over]) == (5, ["gone"])
    archive(bus, 5)
    with pytest.raises(MailArchived, match="up to 5"):
        inbox.poll()
    clock.now_ms += 1
    inbox.join()
    assert Retention(bus).plan(6).upto_seq == 5
    inbox.ack(5)
    assert Retention(bus).plan(7).upto_seq == 5


def test_agent_that_was_noted_and_kept_its_mail_is_asked_about_again(
    bus: Bus, clock: Clock
) -> None:
    """The archiver died before anything moved: nobody has been passed over."""
    publish(bus, 3)
    Inbox(bus, "gone").join()
    retention = Retention(bus)
    retention.pass_over(retention.plan(2, pass_over=["gone"]))
    assert retention.plan(2).upto_seq == 0


def archive(
    bus: Bus, upto: int, *, pass_over: Collection[str] = (), pass_over_idle: bool = False
) -> None:
    retention = Retention(bus)
    with Archiver(bus) as archiver:
        plan = retention.plan(upto, pass_over=pass_over, pass_over_idle=pass_over_idle)
        retention.pass_over(plan)
        archiver.archive(plan.upto_seq)


def test_agent_that_comes_back_is_told_what_was_archived_unread(bus: Bus, clock: Clock) -> None:
    """Bad input: a cursor in the archived range. Never silent."""
    publish(bus, 3)
    inbox = Inbox(bus, "sleeps")
    inbox.ack(1)
    clock.now_ms += 8 * DAY_MS
    publish(bus, 2)
    archive(bus, 3, pass_over_idle=True)
    told = r"up to 3 were archived unread; .*'bus replay --from 2 --to 3', then 'bus ack sleeps 3'"
    with pytest.raises(MailArchived, match=told):
        inbox.poll()
    assert [message.seq for message in bus.read(after_seq=1, upto_seq=3)] == [2, 3]
    inbox.ack(3)
    assert [message.seq for message in inbox.poll()] == [4, 5]


def test_two_archivers_tell_of_all_that_they_moved(bus: Bus, clock: Clock) -> None:
    publish(bus, 1)
    inbox = Inbox(bus, "sleeps")
    inbox.ack(1)
    publish(bus, 9)
    clock.now_ms += 8 * DAY_MS
    retention = Retention(bus)
    retention.pass_over(retention.plan(8, pass_over_idle=True))
    retention.pass_over(retention.plan(4, pass_over_idle=True))  # the smaller one comes later
    assert len(inbox.poll()) == 9  # nothing has moved
    with Archiver(bus) as archiver:
        archiver.archive(8)
    with pytest.raises(MailArchived, match="up to 8"):
        inbox.poll()
    assert inbox.unread() == 3  # what is left, and a hint


def test_poll_that_reads_while_mail_is_moved_says_so(
    bus: Bus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(bus, 10)
    inbox = Inbox(bus, "sleeps")
    inbox.ack(1)
    clock.now_ms += 8 * DAY_MS
    read = file_of(bus).rows

    def read_late(sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        if sql == SQL["mail"]:
            archive(bus, 6, pass_over_idle=True)
        return read(sql, values)

    monkeypatch.setattr(file_of(bus), "rows", read_late)
    with pytest.raises(MailArchived, match="up to 6"):
        inbox.poll()


def test_agent_that_never_came_is_told_too(bus: Bus, clock: Clock) -> None:
    publish(bus, 2, to="stranger")
    clock.now_ms += 8 * DAY_MS
    archive(bus, 2, pass_over_idle=True)
    with pytest.raises(MailArchived):
        Inbox(bus, "stranger").poll()


def test_new_agent_begins_with_what_the_log_still_holds(bus: Bus) -> None:
    publish(bus, 4)
    archive(bus, 2)
    assert [message.seq for message in Inbox(bus, "new").poll()] == [3, 4]


def test_agent_that_acknowledged_is_never_told(bus: Bus) -> None:
    publish(bus, 4)
    inbox = Inbox(bus, "works")
    inbox.ack(3)
    archive(bus, 4)
    assert bus.archive.upto() == 3
    assert [message.seq for message in inbox.poll()] == [4]


def test_queue_that_is_passed_over_gets_all_its_work(bus: Bus, clock: Clock) -> None:
    """It reads the archive as it reads the log."""
    queue = Queue.create(bus, "job")
    publish(bus, 3, type="job")
    clock.now_ms += 8 * DAY_MS
    publish(bus, 1)
    archive(bus, 3)
    assert bus.archive.upto() == 3
    assert [claim.message.seq for claim in queue.claim("w", limit=9)] == [1, 2, 3]


def test_parked_message_can_be_requeued_out_of_the_archive(bus: Bus) -> None:
    """A parked message stays for people, in the log or in the archive."""
    publish(bus, 2)
    inbox = Inbox(bus, "works", max_deliveries=1)

    def fail(message: object) -> None:
        raise ValueError

    inbox.run(fail, drain=True)
    archive(bus, 1)
    assert bus.archive.upto() == 1
    inbox.requeue(1)
    assert [message.seq for message in inbox.poll()] == [1]
