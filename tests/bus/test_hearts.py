"""Hearts: many agents that beat from one thread."""

from collections.abc import Iterator

import pytest

from ackbus import Bus
from ackbus.bus.heartbeat_thread import Hearts
from ackbus.schema.errors import InvalidInput
from ackbus.schema.queries import file_of

from ..conftest import wait_until


@pytest.fixture
def hearts(bus: Bus) -> Iterator[Hearts]:
    made = Hearts(bus, interval_s=0.02)
    made.start()
    yield made
    made.stop()


def said(bus: Bus) -> dict[str, tuple[str, str | None]]:
    return {each.agent: (each.status, each.task) for each in bus.heartbeats.list()}


def test_each_agent_beats_at_once_with_what_it_says(bus: Bus, hearts: Hearts) -> None:
    hearts.beat("a")
    hearts.beat("b", "busy", task="tests")
    wait_until(lambda: said(bus) == {"a": ("idle", None), "b": ("working", "tests")})


def test_each_agent_goes_on_beating(bus: Bus, hearts: Hearts) -> None:
    hearts.beat("a")
    hearts.beat("b", task="tests")
    wait_until(lambda: len(said(bus)) == 2)
    file_of(bus).change("UPDATE heartbeats SET ts_ms = 1")
    wait_until(lambda: all(each.ts_ms > 1 for each in bus.heartbeats.list()))
    assert said(bus) == {"a": ("idle", None), "b": ("idle", "tests")}


def test_agent_that_rests_says_so_and_beats_no_more(bus: Bus, hearts: Hearts) -> None:
    hearts.beat("a")
    hearts.beat("b")
    hearts.rest("a")
    wait_until(lambda: said(bus) == {"a": ("stopped", None), "b": ("idle", None)})
    file_of(bus).change("UPDATE heartbeats SET ts_ms = 1")
    wait_until(lambda: bus.heartbeats.list()[1].ts_ms > 1)
    assert bus.heartbeats.list()[0].ts_ms == 1


def test_all_say_that_they_stop(bus: Bus) -> None:
    hearts = Hearts(bus)
    hearts.start()
    for name in "abc":
        hearts.beat(name)
    hearts.stop()
    assert said(bus) == dict.fromkeys("abc", ("stopped", None))


def test_what_breaks_a_rule_is_refused_and_the_others_beat_on(bus: Bus, hearts: Hearts) -> None:
    hearts.beat("a")
    for agent, status, task in (("a\nb", "idle", None), ("b", "\x1b", None), ("b", "idle", "\n")):
        with pytest.raises(InvalidInput):
            hearts.beat(agent, status, task=task)
    wait_until(lambda: said(bus) == {"a": ("idle", None)})
