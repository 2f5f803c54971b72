"""Presence: `bus agents --online`, agents that stopped, and the start of a new listener."""

import json
import sys

import pytest

from ackbus import Bus, Inbox, Session

from .conftest import RunBus, assert_error

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def online(run_bus: RunBus, within: str) -> list[str]:
    lines = run_bus("agents", "--online", within, "--json").out.splitlines()
    return [json.loads(line)["agent"] for line in lines]


def test_online_are_agents_whose_heart_beat_lately(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("note", from_agent="silent")
    for agent, status in (("here", "idle"), ("gone", "stopped"), ("off", "offline")):
        bus.heartbeats.beat(agent, status)
    assert online(run_bus, "15s") == ["here"]
    assert run_bus("agents", "--online", "0s").code == 4
    assert_error(run_bus("agents", "--online", "soon"), 2, "--online", "30s")


def test_an_agent_that_said_offline_is_not_alive(run_bus: RunBus, bus: Bus) -> None:
    assert run_bus("heartbeat", "me", "--status", "offline").code == 0
    (record,) = (json.loads(line) for line in run_bus("agents", "--json").out.splitlines())
    assert (record["status"], record["liveness"]) == ("offline", "stopped")


def test_coming_and_going_is_no_mail(run_bus: RunBus, bus: Bus) -> None:
    with Session(bus, "worker"):
        bus.publish("note", from_agent="worker")
    assert [message.type for message in bus.read()] == ["agent_started", "note", "agent_stopped"]
    assert [message.type for message in Inbox(bus, "reader").poll()] == ["note"]
    assert [message.type for message in Inbox(bus, "reader", with_work=True).poll()] == ["note"]
    assert Inbox(bus, "reader").unread() == 1
    assert run_bus("poll", "reader").out.count("\n") == 1


def test_such_a_type_that_is_addressed_is_mail(bus: Bus) -> None:
    bus.publish("agent_started", from_agent="a", to_agent="reader")
    assert len(Inbox(bus, "reader").poll()) == 1


@pytest.mark.slow
def test_a_new_listener_begins_where_it_is_told(run_bus: RunBus, bus: Bus) -> None:
    for number in range(1, 6):
        bus.publish("note", number, from_agent="lead")
    show = [sys.executable, "-c", "import json, sys; print(json.load(sys.stdin)['payload'])"]

    def heard(agent: str, *options: str) -> list[str]:
        return run_bus("listen", agent, "--drain", *options, "--", *show).out.split()

    assert heard("one") == ["1", "2", "3", "4", "5"]
    assert heard("two", "--start", "4") == ["4", "5"]
    assert heard("three", "--start", "now") == []
    bus.publish("note", 6, from_agent="lead")
    assert heard("three") == ["6"]
    again = run_bus("listen", "two", "--drain", "--start", "beginning", "--", *show)
    assert again.out.split() == ["6"]


def test_a_start_is_only_for_a_new_listener(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("note", 1, from_agent="lead")
    assert run_bus("listen", "me", "--drain", "--", "true").code == 0
    ended = run_bus("listen", "me", "--drain", "--start", "1", "--", "true")
    assert (ended.code, "me goes on after message" in ended.err) == (0, True)
    for start in ("0", "99", "soon"):
        ended = run_bus("listen", "new", "--drain", "--start", start, "--", "true")
        assert_error(ended, 2, "start must be beginning, now, or a seq from 1 to")


def test_export_once_is_the_plain_form(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("note", from_agent="lead")
    assert "exported 1 message" in run_bus("export", "--once").out
    assert_error(run_bus("export", "--once", "--follow"), 2, "give one of --follow, --once")


def test_the_agent_of_the_environment_reads_and_acknowledges(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("note", "for me", from_agent="lead", to_agent="me")
    me = {"BUS_AGENT": "me"}
    assert "for me" in run_bus("poll", env=me).out
    assert "for me" in run_bus("inbox", env=me).out
    assert run_bus("ack", "1", env=me).code == 0
    assert Inbox(bus, "me").position == 1
    assert_error(run_bus("poll"), 2, "give AGENT, or set BUS_AGENT")
    assert_error(run_bus("ack", "1"), 2, "give AGENT, or set BUS_AGENT")
    assert_error(run_bus("ack", "me", env=me), 2, "give the SEQ")
