"""Issue 32, item 7: what becomes of reservations when programs of agents are killed."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import engine_of

from ..agent_programs import AgentProgram, agent_program
from ..server.mcp_clients import in_process
from .conftest import RunBus, assert_error
from .test_hooks import Agent

pytestmark = pytest.mark.slow

#: The columns that say when an agent acted last.
TIMES = {"reservations": "reserved_at_ms", "heartbeats": "ts_ms", "cursors": "updated_at_ms"}

Start = Callable[[str], AgentProgram]


@pytest.fixture
def start(bus_dir: Path, bus_env: dict[str, str]) -> Iterator[Start]:
    """Starts programs of agents, each with a session."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(agent_program(agent, bus_dir.parent, bus_env))


def fall_silent(bus: Bus) -> None:
    """Make all reservations and signs of life six minutes older."""
    with bus.transaction():
        for table, column in TIMES.items():
            engine_of(bus).rows(f"UPDATE {table} SET {column} = {column} - 360000")


def test_locks_of_a_session_end_with_its_program(bus: Bus, start: Start, run_bus: RunBus) -> None:
    """By tools or in its shell; a person's under the same name, and the next session's, stay."""
    ann = start("ann")
    ann.call("bus_reserve", paths=["a.py"])
    ann.run("reserve", "b.py", "--agent", "ann")
    assert run_bus("reserve", "c.py", "--agent", "ann").code == 0
    assert run_bus("reserve", "a.py", "b.py", "--agent", "bob").code == 3
    ann.kill()
    assert run_bus("reserve", "a.py", "--agent", "bob").code == 0
    assert run_bus("reserve", "c.py", "--agent", "bob").code == 3
    following = start("ann")
    assert following.call("bus_join")["agent"] == "ann"  # the name that has become free
    assert "your reservations of a.py, b.py ended" in following.call("bus_status")["warning"]
    assert following.call("bus_reserve", paths=["b.py"])["granted"]
    assert following.call("bus_reserve", paths=["a.py"]) == {"refused": True}
    assert "your reservations of a.py ended" in following.call("bus_status")["warning"]
    assert run_bus("reserve", "b.py", "--agent", "bob").code == 3


def test_conflict_says_whether_the_holder_lives(
    bus: Bus, bus_dir: Path, start: Start, run_bus: RunBus
) -> None:
    ann = start("ann")
    ann.call("bus_reserve", paths=["a.py"])
    told = in_process(bus_dir, lambda me: me.fail("bus_reserve", paths=["a.py"]))
    assert "(it lives, silent since 2" in told
    assert "take-over" not in told
    assert_error(run_bus("reserve", "a.py", "--agent", "bob"), 3, "; it lives, silent since 2")
    assert run_bus("reserve", "b.py", "--agent", "ann").code == 0
    ann.kill()
    fall_silent(bus)
    told = in_process(bus_dir, lambda me: me.fail("bus_reserve", paths=["b.py"]))
    assert "silent since 2" in told
    assert "mode='take-over', with a reason." in told


def test_tools_take_over_from_the_silent_only(bus: Bus, bus_dir: Path, run_bus: RunBus) -> None:
    """With a reason. The holder, its guard and its old token know it."""
    held = bus.reservations.reserve(["src"], "ann").reservations[0]
    wanted = {"paths": ["src/a.py"], "mode": "take-over"}
    assert "reason" in in_process(bus_dir, lambda me: me.fail("bus_reserve", **wanted))
    reasoned = wanted | {"reason": "the build is red"}
    living = in_process(bus_dir, lambda me: me.fail("bus_reserve", **reasoned))
    assert "NOT reserved" in living
    fall_silent(bus)
    assert in_process(bus_dir, lambda me: me.call("bus_reserve", **reasoned))["granted"]
    assert '"reason":"the build is red"' in run_bus("poll", "ann").out
    assert "1 unread" in Agent(run_bus, name="ann").hears("start")
    assert_error(run_bus("reservations", "renew", str(held.token), "--agent", "ann"), 3, "token 1")
    conflict = bus.reservations.against(["src/a.py"], "ann")[0]
    assert conflict.held.reason == "taken over from ann: the build is red"


def test_people_take_over_from_anybody(bus: Bus, start: Start, run_bus: RunBus) -> None:
    ann = start("ann")
    ann.call("bus_reserve", paths=["a.py"])
    take = ("reserve", "a.py", "--agent", "bob", "--take-over")
    assert_error(run_bus(*take), 2, "--take-over needs --reason: its holder is told")
    taken = run_bus(*take, "--reason", "ann is stuck", "--json")
    assert json.loads(taken.out)["granted"]
    assert ann.call("bus_reserve", paths=["a.py"]) == {"refused": True}
    (mail,) = ann.call("bus_inbox")["messages"]
    assert (mail["type"], mail["from"]) == ("reservation.taken_over", "bob")
    assert mail["payload"]["reason"] == "ann is stuck"
