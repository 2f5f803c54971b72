"""Issue 32, item 7: locks end with their holder, or are taken over from it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ackbus import Bus
from ackbus.bus.reservations.reservations import ReserveResult
from ackbus.errors import InvalidInput
from ackbus.schema.errors import LeaseLost
from ackbus.schema.process_table import Process, process, system
from ackbus.subscribers.overview.agents import SILENT_S, holder_of, take_over

from .conftest import Clock

#: Holders whose end nobody here can see: another container's, and what is no process at all.
UNSEEN = (f"process 1 since 4711 on {system()}0", "reviewer", "process x since y on z.1", "")


class Program:
    """A process that does nothing but run: the program of a session."""

    def __init__(self) -> None:
        self._started = subprocess.Popen(["sleep", "1000"])
        found = process(self._started.pid)
        assert found is not None
        self.name = str(found)

    def kill(self) -> None:
        self._started.kill()
        self._started.wait()


@pytest.fixture
def program() -> Iterator[Program]:
    """A running program; it is killed at the end."""
    with ExitStack() as stack:
        started = Program()
        stack.callback(started.kill)
        yield started


def reserve(bus: Bus, path: str, agent: str, session: str | None = None) -> ReserveResult:
    return bus.reservations.reserve([path], agent, session=session)


# the end of a session --------------------------------------------------------------------------


def test_reservation_of_a_session_ends_with_its_process(bus: Bus, program: Program) -> None:
    """Its token is void; what was made beside it, under the same name, ends at its time."""
    (held,) = reserve(bus, "a.py", "ann", program.name).reservations
    reserve(bus, "b.py", "ann")
    assert not reserve(bus, "a.py", "bob").granted
    assert [each.held for each in bus.reservations.against(["a.py"], "bob")] == [held]
    program.kill()
    assert [each.path for each in bus.reservations.list()] == ["b.py"]
    assert bus.reservations.against(["a.py"], "bob") == []
    with pytest.raises(LeaseLost, match="ended with the session that made it"):
        bus.reservations.renew(held.token, "ann")
    assert reserve(bus, "a.py", "bob").granted
    assert not reserve(bus, "b.py", "bob").granted
    assert [each.path for each in bus.reservations.ended_with_sessions("ann")] == ["a.py"]


def test_next_session_under_the_name_reserves_anew(bus: Bus, program: Program) -> None:
    (held,) = reserve(bus, "a.py", "ann", program.name).reservations
    program.kill()
    own = str(process(os.getpid()))
    (next_one,) = reserve(bus, "a.py", "ann", own).reservations
    assert next_one.token > held.token
    assert next_one.session == own
    assert bus.reservations.ended_with_sessions("ann") == []
    with pytest.raises(LeaseLost):
        bus.reservations.renew(held.token, "ann")


@pytest.mark.parametrize("session", UNSEEN[:3])
def test_what_nobody_sees_dead_ends_at_its_time(bus: Bus, clock: Clock, session: str) -> None:
    reserve(bus, "a.py", "ann", session)
    clock.advance(3599)
    assert not reserve(bus, "a.py", "bob").granted
    clock.advance(1)
    assert reserve(bus, "a.py", "bob").granted
    assert [each.name for each in bus.leases.list()] == []


def test_process_of_before_the_start_of_the_system_is_dead(bus: Bus) -> None:
    reserve(bus, "a.py", "ann", "process 1 since 4711 on 00000000.1")
    assert reserve(bus, "a.py", "bob").granted


@pytest.mark.parametrize("second", [None, str(Process(1, 0, "x", "4711"))])
def test_reservation_that_is_extended_from_elsewhere_outlives_the_session(
    bus: Bus, program: Program, second: str | None
) -> None:
    """The person in the shell, or the other program, still edits the file."""
    (first,) = reserve(bus, "a.py", "ann", program.name).reservations
    (again,) = reserve(bus, "a.py", "ann", program.name).reservations
    assert (again.token, again.session) == (first.token, program.name)
    (other,) = reserve(bus, "a.py", "ann", second).reservations
    assert (other.token, other.session) == (first.token, None)
    program.kill()
    assert not reserve(bus, "a.py", "bob").granted


def test_renewed_and_released_reservations_keep_their_bond(bus: Bus, program: Program) -> None:
    (held,) = reserve(bus, "a.py", "ann", program.name).reservations
    bus.reservations.renew(held.token, "ann", lease_s=7200)
    reserve(bus, "a.py", "ann", program.name)  # for less: it stays as long
    assert bus.leases.list()[0].until_ms >= bus.reservations.list()[0].until_ms
    bus.reservations.release(held.token, "ann")
    assert bus.leases.list() == []


# the holder ------------------------------------------------------------------------------------


def test_holder_lives_is_dead_or_is_not_known(bus: Bus, clock: Clock, program: Program) -> None:
    """And it is silent since its last act, of whatever kind."""
    (held,) = reserve(bus, "a.py", "ann").reservations
    begin = clock.now_ms
    assert (holder_of(bus, held).lives, holder_of(bus, held).heard_ms) == (None, begin)
    for act in (
        lambda: bus.publish("t", from_agent="ann"),
        lambda: bus.heartbeats.beat("ann", "stopped"),
    ):
        clock.advance(60)
        act()
        assert holder_of(bus, held).heard_ms == clock.now_ms
    assert holder_of(bus, held).lives is False
    clock.advance(1)
    bus.publish("t", from_agent="ann")  # so it has not stopped
    assert holder_of(bus, held).lives is None
    bus.heartbeats.beat("ann")
    assert holder_of(bus, held).lives is True
    clock.advance(SILENT_S)
    assert (holder_of(bus, held).lives, holder_of(bus, held).may_be_followed) == (None, True)
    (bound,) = reserve(bus, "b.py", "ann", program.name).reservations
    assert holder_of(bus, bound).lives is True
    program.kill()
    assert holder_of(bus, bound).lives is False


# taking over -----------------------------------------------------------------------------------


def test_only_dead_and_silent_holders_are_followed(bus: Bus, clock: Clock) -> None:
    (held,) = reserve(bus, "src", "ann").reservations
    reserve(bus, "docs", "cid")
    clock.advance(SILENT_S)
    bus.heartbeats.beat("cid")
    refused = take_over(bus, ["src/a.py", "docs"], "bob", reason="it is broken")
    assert [(each.path, each.held.agent) for each in refused.conflicts] == [("docs", "cid")]
    assert not refused.granted
    assert len(bus.reservations.list()) == 2  # none was ended for the other
    taken = take_over(bus, ["src/a.py"], "bob", reason="it is broken")
    assert [each.reason for each in taken.reservations] == ["taken over from ann: it is broken"]
    with pytest.raises(LeaseLost):
        bus.reservations.renew(held.token, "ann")


def test_take_over_by_hand_is_recorded_and_told(bus: Bus, program: Program) -> None:
    bus.heartbeats.beat("ann")
    held = bus.reservations.reserve(["a.py", "b.py"], "ann", session=program.name).reservations
    assert take_over(bus, ["*.py"], "bob", reason="ann is away", by_hand=True).granted
    (told,) = bus.read(to_agent="ann")
    ended = [{"path": each.path, "token": each.token} for each in held]
    assert (told.type, told.from_agent) == ("reservation.taken_over", "bob")
    assert told.payload == {"ended": ended, "by": "bob", "reason": "ann is away"}
    (conflict,) = bus.reservations.against(["a.py"], "ann")  # what the guard of ann says
    assert conflict.held.reason == "taken over from ann: ann is away"
    assert bus.leases.list() == []


def test_what_is_free_is_taken_over_from_nobody(bus: Bus) -> None:
    assert take_over(bus, ["a.py"], "bob", reason="x" * 255).granted
    assert bus.log.newest_seq() == 0
    assert take_over(bus, ["a.py"], "cid", reason="y" * 255, by_hand=True).granted
    assert len(bus.reservations.list()[0].reason or "") == 255


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "x" * 256, "\x1b[2J"])
def test_take_over_needs_a_reason(bus: Bus, reason: str) -> None:
    reserve(bus, "a.py", "ann")
    with pytest.raises(InvalidInput):
        take_over(bus, ["a.py"], "bob", reason=reason, by_hand=True)
    assert bus.reservations.list()[0].agent == "ann"


@pytest.mark.slow
def test_hundreds_of_conflicts_are_all_taken_over(bus: Bus) -> None:
    """More than a refusal names."""
    for number in range(250):
        reserve(bus, f"{number}.py", f"agent-{number % 3}")
    assert take_over(bus, ["*.py"], "bob", reason="clean", by_hand=True).granted
    assert [each.agent for each in bus.reservations.list()] == ["bob"]
    assert [len(each.payload["ended"]) for each in bus.read()] == [84, 83, 83]  # type: ignore[index,call-overload]
