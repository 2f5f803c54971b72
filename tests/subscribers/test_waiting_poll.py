"""`Inbox.poll(wait_s=)` and `Inbox.stop`."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.errors import InvalidInput

from ..conftest import wait_until
from ..programs import TIMEOUT_S, raw_sql, run_program

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def test_a_waiting_poll_returns_with_the_first_message(bus: Bus, bus_dir: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(Inbox(bus, "alice").poll, wait_s=TIMEOUT_S)
        run_program(
            "import sys; from ackbus import Bus;"
            "Bus.open(sys.argv[1]).publish('note', from_agent='bob')",
            bus_dir,
        )
        assert [message.type for message in waiter.result()] == ["note"]


def test_a_waiting_poll_sees_a_program_that_rings_no_bell(bus: Bus, bus_dir: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(Inbox(bus, "alice").poll, wait_s=TIMEOUT_S)
        raw_sql(
            bus_dir,
            "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('m', 1, 'raw', 'note')",
        )
        assert [message.id for message in waiter.result()] == ["m"]


def test_a_waiting_poll_waits_for_its_type_only_so_long(bus: Bus) -> None:
    bus.publish("note", from_agent="bob")
    inbox = Inbox(bus, "alice")
    assert inbox.poll(type="other", wait_s=0.05) == []
    assert len(inbox.poll(type="note", wait_s=TIMEOUT_S)) == 1


def test_a_limit_of_nothing_is_refused(bus: Bus) -> None:
    with pytest.raises(InvalidInput, match="limit must be at least 1, not 0"):
        Inbox(bus, "alice").poll(0)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        Inbox(bus, "alice").poll(0)


def test_stop_ends_a_loop_that_waits_and_later_ones(bus: Bus) -> None:
    inbox = Inbox(bus, "alice")
    seen: list[int] = []
    thread = threading.Thread(target=inbox.run, args=(lambda message: seen.append(message.seq),))
    thread.start()
    bus.publish("note", from_agent="bob")
    wait_until(lambda: inbox.position == 1)
    inbox.stop()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    bus.publish("note", from_agent="bob")
    inbox.run(lambda message: seen.append(message.seq))
    assert (seen, inbox.position) == ([1], 1)


def test_stop_of_one_inbox_leaves_another_one_running(bus: Bus) -> None:
    bus.publish("note", from_agent="bob")
    stopped, other = Inbox(bus, "alice"), Inbox(bus, "carol")
    stopped.stop()
    stopped.run(lambda message: None)
    other.run(lambda message: None, drain=True)
    assert (stopped.position, other.position) == (0, 1)
