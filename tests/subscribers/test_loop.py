"""The delivery loop: handle, acknowledge, deliver again, park; and how it waits meanwhile."""

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox, Message
from ackbus.bus.doorbell import Listener, Pace
from ackbus.errors import InvalidInput, NotFound, SecondLoopWarning
from ackbus.schema.queries import file_of
from ackbus.subscribers.inboxes import delivery
from ackbus.subscribers.inboxes.failed_deliveries import Deliveries
from ackbus.subscribers.inboxes.inbox import MAX_DELIVERIES

from ..conftest import wait_until
from ..programs import connect, raw_sql, run_program, run_program_to_sigkill, running_program

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


@pytest.fixture(autouse=True)
def _short_retry_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 0.01)


def fill(bus: Bus, count: int) -> None:
    bus.publish_many([Draft("note", n, from_agent="bob") for n in range(count)])


class Handler:
    """Notes each delivery as (seq, attempt); fails for each seq as often as it is told to."""

    def __init__(self, failures: dict[int, int] | None = None) -> None:
        self.failures = failures or {}
        self.seen: list[tuple[int, int]] = []

    def has_seen(self, count: int) -> bool:
        return len(self.seen) >= count

    def __call__(self, message: Message) -> None:
        self.seen.append((message.seq, message.attempt))
        if self.failures.get(message.seq, 0) > 0:
            self.failures[message.seq] -= 1
            raise RuntimeError(f"can't handle {message.seq}")


def test_each_message_is_handled_and_acknowledged(bus: Bus) -> None:
    """M-37, M-53, C-08: the cursor is at the message before while the handler works."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    positions = []
    inbox.run(lambda message: positions.append(inbox.position), drain=True)
    assert positions == [0, 1, 2]
    assert inbox.position == 3


def test_failed_message_comes_again_and_nothing_overtakes_it(bus: Bus) -> None:
    """M-53, M-37, M-35, promise 5: the third of five fails twice, with the cursor at the second."""
    fill(bus, 5)
    inbox = Inbox(bus, "alice")
    handler = Handler({3: 2})
    positions = []

    def handle(message: Message) -> None:
        positions.append(inbox.position)
        handler(message)

    inbox.run(handle, drain=True)
    assert handler.seen == [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (4, 1), (5, 1)]
    assert positions == [0, 1, 2, 2, 2, 3, 4]
    assert inbox.position == 5


def test_success_forgets_the_failures(bus: Bus, bus_dir: Path) -> None:
    """Promise 5: a message that failed and then succeeded leaves no row."""
    fill(bus, 2)
    Inbox(bus, "alice").run(Handler({1: 2, 2: 3}), drain=True)
    assert raw_sql(bus_dir, "SELECT count(*) FROM deliveries") == [[0]]


def test_message_that_always_fails_is_parked_and_the_agent_goes_on(bus: Bus) -> None:
    """M-56, promise 5: after five deliveries; where people see which, how often, and why."""
    assert MAX_DELIVERIES == 5
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    handler = Handler({2: 1000})
    inbox.run(handler, drain=True)
    assert handler.seen == [(1, 1), *((2, attempt) for attempt in range(1, 6)), (3, 1)]
    (parked,) = inbox.parked()
    assert (parked.agent, parked.seq, parked.attempts) == ("alice", 2, 5)
    assert parked.error == "RuntimeError: can't handle 2"
    assert (inbox.position, inbox.poll()) == (3, [])
    assert Inbox(bus, "carol").parked() == []


def test_number_of_deliveries_is_an_option(bus: Bus) -> None:
    """M-56: one means that a failure parks at once."""
    fill(bus, 1)
    handler = Handler({1: 1000})
    inbox = Inbox(bus, "alice", max_deliveries=1)
    inbox.run(handler, drain=True)
    assert handler.seen == [(1, 1)]
    assert [parked.seq for parked in inbox.parked()] == [1]


def park(bus: Bus, inbox: Inbox, *seqs: int) -> None:
    inbox.run(Handler(dict.fromkeys(seqs, inbox.max_deliveries)), drain=True)
    assert [parked.seq for parked in inbox.parked()] == list(seqs)


def test_requeued_message_is_delivered_with_a_new_count(bus: Bus) -> None:
    """M-56, promise 5: before newer ones; it is acknowledged by its own seq alone."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    park(bus, inbox, 1)
    inbox.requeue(1)
    fill(bus, 1)
    assert [message.seq for message in inbox.poll()] == [1, 4]
    assert (inbox.parked(), inbox.unread()) == ([], 2)
    inbox.ack(4)
    assert [message.seq for message in inbox.poll()] == [1]
    handler = Handler({1: 1})
    inbox.run(handler, drain=True)
    assert handler.seen == [(1, 1), (1, 2)]
    assert (inbox.position, inbox.poll()) == (4, [])


def test_attempts_are_counted_for_each_requeued_message(bus: Bus) -> None:
    """M-56: also behind others in one batch, and for what failed before it was overtaken."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    park(bus, inbox, 1, 2)
    inbox.requeue(2)
    assert not inbox.fail(inbox.poll()[0], "once")
    fill(bus, 1)
    assert not inbox.fail(inbox.poll()[1], "once")
    inbox.requeue(1)
    handler = Handler()
    inbox.run(handler, drain=True)
    assert handler.seen == [(1, 1), (2, 2), (4, 2)]


def test_message_that_fails_out_of_order_is_parked_in_its_turn(bus: Bus) -> None:
    """Promise 5: the cursor passes nothing that was neither acknowledged nor parked."""
    first, second, third = (bus.publish("t", n, from_agent="lead", to_agent="a") for n in range(3))
    inbox = Inbox(bus, "a")
    last = inbox.poll()[-1]
    assert [inbox.fail(last, "boom") for _ in range(MAX_DELIVERIES + 1)] == [False] * 6
    assert [message.seq for message in inbox.poll()] == [first.seq, second.seq, third.seq]
    inbox.ack(first.seq)
    assert not inbox.fail(last, "boom")
    inbox.ack(second.seq)
    assert inbox.fail(last, "boom")
    assert (inbox.poll(), [parked.seq for parked in inbox.parked()]) == ([], [third.seq])


def test_message_for_another_is_neither_failed_nor_completed(bus: Bus) -> None:
    bus.publish("t", from_agent="lead", to_agent="b")
    (message,) = Inbox(bus, "b").poll()
    inbox = Inbox(bus, "a")
    for act in (lambda: inbox.fail(message, "boom"), lambda: inbox.complete(message)):
        with pytest.raises(InvalidInput, match="message 1 is for 'b', not for 'a'"):
            act()
    assert inbox.position == 0


def test_requeued_message_that_fails_again_is_parked_again(bus: Bus) -> None:
    """M-56."""
    fill(bus, 1)
    inbox = Inbox(bus, "alice")
    park(bus, inbox, 1)
    inbox.requeue(1)
    handler = Handler({1: 1000})
    inbox.run(handler, drain=True)
    assert handler.seen == [(1, attempt) for attempt in range(1, 6)]
    assert [parked.attempts for parked in inbox.parked()] == [5]


def test_dropped_message_stays_in_the_log_alone(bus: Bus) -> None:
    """M-56, C-03."""
    fill(bus, 2)
    inbox = Inbox(bus, "alice")
    park(bus, inbox, 1)
    inbox.drop(1)
    assert (inbox.parked(), inbox.poll()) == ([], [])
    assert bus.get(1) is not None
    for act in (inbox.requeue, inbox.drop):
        with pytest.raises(NotFound, match="message 1 is not parked for alice"):
            act(1)


def test_ack_that_jumps_ahead_forgets_failures_but_not_what_is_parked(
    bus: Bus, bus_dir: Path
) -> None:
    """M-56, M-50."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice", max_deliveries=2)
    first, second, _ = inbox.poll()
    inbox.fail(first, "no")
    assert inbox.fail(first, "no")
    assert not inbox.fail(second, "no")
    inbox.ack(3)
    assert raw_sql(bus_dir, "SELECT seq, state FROM deliveries") == [[1, "parked"]]


# Crashes.

CRASHING_AGENT = """
import sys
from ackbus import Bus, Inbox
bus = Bus.open(sys.argv[1])
def handle(message):
    print(message.seq, message.attempt, flush=True)
    sys.stdin.read()
Inbox(bus, "alice").run(handle, drain=True)
print("drained", flush=True)
"""


@pytest.mark.slow
def test_message_that_kills_its_agent_is_parked(bus: Bus, bus_dir: Path) -> None:
    """M-35, M-56, promise 5: handled, not acknowledged, kill -9: it comes again, five times."""
    fill(bus, 2)
    deliveries = []
    for _ in range(6):
        with running_program(CRASHING_AGENT, bus_dir) as agent:
            assert agent.stdout is not None
            deliveries.append(agent.stdout.readline())
            agent.send_signal(signal.SIGKILL)
            agent.wait()
    assert deliveries == [*(f"1 {attempt}\n" for attempt in range(1, 6)), "2 1\n"]
    (parked,) = Inbox(bus, "alice").parked()
    assert (parked.seq, parked.attempts) == (1, 5)
    assert parked.error == "the process that handled it died"


def test_work_done_before_a_crash_is_not_replied_to_twice(bus: Bus, bus_dir: Path) -> None:
    """M-38, M-35, promise 7: completed and killed at once: delivered to nobody again."""
    fill(bus, 1)
    run_program_to_sigkill(
        """
        import os, signal, sys
        from ackbus import Bus, Draft, Inbox
        inbox = Inbox(Bus.open(sys.argv[1]), "alice")
        def handle(message):
            inbox.complete(message, Draft("done", from_agent="alice", to_agent="alice"))
            os.kill(os.getpid(), signal.SIGKILL)
        inbox.run(handle, drain=True)
        """,
        bus_dir,
    )
    handler = Handler()
    Inbox(bus, "alice").run(handler, drain=True)
    assert [seq for seq, _ in handler.seen] == [2]
    assert [message.type for message in bus.read()] == ["note", "done"]


def test_redelivered_message_has_its_effect_once(bus: Bus) -> None:
    """M-38: a cursor that was put back delivers again; the second delivery is recognised."""
    fill(bus, 1)
    inbox = Inbox(bus, "alice")
    known: list[bool] = []

    def handle(message: Message) -> None:
        if message.type == "note":
            known.append(inbox.is_completed(message))
            inbox.complete(message, Draft("effect", from_agent="alice", to_agent="zoe"))

    for _ in range(2):
        inbox.run(handle, drain=True)
        file_of(bus).change("UPDATE cursors SET last_acked_seq = 0")
    assert known == [False, True]
    assert [message.type for message in bus.read()] == ["note", "effect"]


def test_error_after_an_acknowledgement_is_no_failure(bus: Bus) -> None:
    """M-37: what was acknowledged is done; it is neither counted nor parked."""
    fill(bus, 2)
    inbox = Inbox(bus, "alice", max_deliveries=1)

    def handle(message: Message) -> None:
        inbox.complete(message)
        raise RuntimeError("after the work")

    inbox.run(handle, drain=True)
    assert (inbox.position, inbox.parked()) == (2, [])
    assert file_of(bus).rows("SELECT * FROM deliveries") == []


def test_loop_of_a_living_process_is_no_crash(bus: Bus, bus_dir: Path) -> None:
    """PITFALLS 9: only a process that is known to be gone counts; stopping leaves no row."""
    fill(bus, 1)
    with running_program(CRASHING_AGENT, bus_dir) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "1 1\n"
        inbox = Inbox(bus, "alice")
        with pytest.warns(SecondLoopWarning, match=f"process {agent.pid} delivers to alice too"):
            inbox._begin()
        assert inbox.attempts(inbox.poll()[0]) == 0
        inbox._end()
        assert agent.stdin is not None
        agent.stdin.close()
        assert agent.stdout.readline() == "drained\n"
    assert connect(bus_dir).execute("SELECT count(*) FROM loops").get == 0


@pytest.mark.parametrize("pid", [os.getpid(), os.getppid()], ids=["own", "another's"])
def test_loop_of_an_earlier_process_with_the_same_number_is_a_crash(bus: Bus, pid: int) -> None:
    """PITFALLS 9: numbers come again, after a start of the system or of a container soon."""
    fill(bus, 1)
    row = "INSERT INTO loops VALUES ('alice', ?, ?)"
    file_of(bus).change(row, (pid, bus.now_ms() - 1000 * 86_400 * 366))
    assert Deliveries.of(bus).agents_in_loops() == set()
    inbox = Inbox(bus, "alice")
    inbox._begin()
    assert inbox.attempts(inbox.poll()[0]) == 1
    assert Deliveries.of(bus).agents_in_loops() == {"alice"}


def test_own_loop_that_was_not_ended_is_no_crash(bus: Bus) -> None:
    fill(bus, 1)
    inbox = Inbox(bus, "alice")
    for _ in range(2):
        inbox._begin()
    assert inbox.attempts(inbox.poll()[0]) == 0


def test_error_that_is_no_exception_ends_the_loop(bus: Bus) -> None:
    """M-37: Ctrl-C in a handler acknowledges nothing, counts as a failure, and comes out."""
    fill(bus, 1)
    inbox = Inbox(bus, "alice")

    def interrupt(message: Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inbox.run(interrupt)
    (message,) = inbox.poll()
    assert (inbox.position, inbox.attempts(message)) == (0, 1)


# Waiting.


class Waits(list[float]):
    """Records the waits of listeners, and ends the loop after so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.then: Callable[[], None] = lambda: None

        def wait(listener: Listener, timeout_s: float) -> bool:
            self.append(timeout_s)
            self.then()
            return False

        monkeypatch.setattr(Listener, "wait", wait)
        monkeypatch.setattr(Listener, "pause", wait)


def test_pace_grows_from_a_fifth_of_a_second_to_two() -> None:
    """M-58, X-42: by half with each look that finds nothing, and back with a message."""
    pace = Pace()
    expected = [0.2, 0.3, 0.45, 0.675, 1.0125, 1.51875, 2.0, 2.0]
    assert [pace.next() for _ in expected] == pytest.approx(expected)
    pace.reset()
    assert [pace.next() for _ in range(3)] == pytest.approx(expected[:3])


def test_equal_bounds_give_a_fixed_pace() -> None:
    """M-59: the 500 ms of the first version."""
    pace = Pace(active_s=0.5, idle_s=0.5)
    assert [pace.next() for _ in range(5)] == [0.5] * 5
    for bad in [(0, 1, 1.5), (2, 1, 1.5), (1, 2, 0.9)]:
        with pytest.raises(ValueError, match="a pace needs"):
            Pace(*bad)


@pytest.mark.parametrize(
    ("recheck_s", "expected"),
    [
        (None, [0.2, 0.3, 0.45, 0.675, 1.0125, 1.51875, 2.0, 2.0, 0.2, 0.3]),
        (0.5, [0.5] * 10),
    ],
    ids=["adaptive", "fixed"],
)
def test_loop_waits_at_its_pace(
    recheck_s: float | None,
    expected: list[float],
    bus: Bus,
    bus_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M-58, M-59, X-10, X-42: eight looks find nothing, then a message comes, then nothing.

    It comes from a program that rings no bell.
    """
    waits = Waits(monkeypatch)
    inbox = Inbox(bus, "alice", recheck_s=recheck_s)

    def script() -> None:
        if len(waits) == 8:
            with Bus.open(bus_dir) as other:
                fill(other, 1)
        if len(waits) == 10:
            inbox.stop()

    waits.then = script
    handler = Handler()
    inbox.run(handler)
    assert waits == pytest.approx(expected, abs=0.05)
    assert handler.seen == [(1, 1)]


def test_failures_are_retried_after_growing_pauses(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-53: 0.1 s and doubling, to 2 s; parking needs none."""
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 2.0)
    waits = Waits(monkeypatch)
    fill(bus, 1)
    Inbox(bus, "alice", max_deliveries=7).run(Handler({1: 1000}), drain=True)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0], abs=0.05)


def test_waiting_loop_is_woken_at_once(bus: Bus, bus_dir: Path) -> None:
    """X-10, X-42: by the doorbell, at a pace that would sleep for a minute."""
    inbox = Inbox(bus, "alice", recheck_s=60)
    handler = Handler()
    thread = threading.Thread(target=inbox.run, args=(handler,))
    thread.start()
    try:
        for n in range(1, 4):
            run_program(
                "import sys; from ackbus import Bus;"
                "Bus.open(sys.argv[1]).publish('note', from_agent='bob')",
                bus_dir,
            )
            wait_until(partial(handler.has_seen, n))
    finally:
        inbox.stop()
        thread.join(60)
    assert not thread.is_alive()


def test_raw_writer_is_handled_at_the_next_look(bus: Bus, bus_dir: Path) -> None:
    """M-08, PITFALLS 11: it rings no bell; the pace bounds how late its message is seen."""
    inbox = Inbox(bus, "alice")
    handler = Handler()
    thread = threading.Thread(target=inbox.run, args=(handler,))
    thread.start()
    try:
        raw_sql(
            bus_dir,
            "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('m', 1, 'raw', 'note')",
        )
        wait_until(lambda: handler.seen)
    finally:
        inbox.stop()
        thread.join(60)
    assert handler.seen == [(1, 1)]


def test_stopped_loop_leaves_the_rest_of_its_batch(bus: Bus) -> None:
    """M-37: the message at hand is finished and acknowledged, the next ones wait."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    inbox.run(lambda message: inbox.stop())
    assert inbox.position == 1


# The plain iterator.


def test_asking_for_the_next_message_acknowledges_the_last(bus: Bus) -> None:
    """M-37: leaving the loop leaves the message at hand, which comes again."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    for message in inbox:
        if message.seq == 2:
            break
    assert inbox.position == 1
    for message in inbox:
        inbox.ack(message)
        if message.seq == 3:
            break
    assert inbox.position == 3


def test_error_in_the_body_of_the_loop_acknowledges_nothing(bus: Bus) -> None:
    """M-37, M-53."""
    fill(bus, 1)
    inbox = Inbox(bus, "alice")

    def fail() -> None:
        for message in inbox:
            raise RuntimeError(message.id)

    with pytest.raises(RuntimeError):
        fail()
    assert inbox.position == 0


def test_error_that_is_no_unicode_text_is_counted(bus: Bus) -> None:
    """Promise 5: a handler's error may quote bytes that mean nothing; the next message comes."""
    fill(bus, 2)

    def handle(message: Message) -> None:
        if message.seq == 1:
            raise ValueError("bad name \udcff")

    inbox = Inbox(bus, "alice", max_deliveries=2)
    inbox.run(handle, drain=True)
    assert [(parked.seq, parked.error) for parked in inbox.parked()] == [
        (1, "ValueError: bad name \\udcff")
    ]
    assert inbox.position == 2


def test_retry_pauses_double_from_the_one_that_is_asked_for(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-53: a failing message comes again after a pause that its inbox chooses."""
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 60.0)
    fill(bus, 1)
    inbox = Inbox(bus, "alice", max_deliveries=3, retry_pause_s=0.05)
    times: list[float] = []

    def fail(message: Message) -> None:
        times.append(time.monotonic())
        raise ValueError

    inbox.run(fail, drain=True)
    first, second, third = times
    assert second - first >= 0.05
    assert third - second >= 0.1


def test_reading_a_message_as_json_does_not_keep_its_payload(bus: Bus) -> None:
    """X-19: who prints many large messages needs the memory of one."""
    bus.publish("note", "x" * 100_000, from_agent="bob")
    (message,) = bus.read()
    assert b"xxx" in message.to_json()
    bus.blobs.remove(message.payload_ref or "")
    assert b'"payload_error":"blob_missing"' in message.to_json()


def test_a_death_while_idle_does_not_park_what_comes_later(bus: Bus, bus_dir: Path) -> None:
    """Promise 5: a message is never parked without a delivery, also at max_deliveries=1."""
    file_of(bus).change("INSERT INTO loops VALUES ('alice', 999999999, 0)")
    fill(bus, 1)
    delivered: list[int] = []
    Inbox(bus, "alice", max_deliveries=1).run(lambda m: delivered.append(m.seq), drain=True)
    assert delivered == [1]


def test_message_that_failed_thousands_of_times_still_comes_again(bus: Bus) -> None:
    """M-53, promise 5: an inbox that never parks outlives any number of failures."""
    fill(bus, 1)
    row = "INSERT INTO deliveries VALUES ('alice', 1, 'failing', 5000, 'error', 0)"
    file_of(bus).change(row)
    outcomes = iter([ValueError("once more"), None])

    def handle(message: Message) -> None:
        if (outcome := next(outcomes)) is not None:
            raise outcome

    inbox = Inbox(bus, "alice", max_deliveries=10**9)
    inbox.run(handle, drain=True)
    assert (inbox.position, inbox.parked()) == (1, [])
