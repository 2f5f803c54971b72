"""A row that no ackbus wrote is named at each door in the place of an error that nobody meant."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Queue
from ackbus.server.pushpals.streams import ended_by_its_error

from ..conftest import RunBus
from ..hostile_bus.attacks import Column, store
from .conftest import Serve
from .mcp_clients import in_process, text_of

#: What each door says of the row of the fixture.
NAMED = "in the table queues, the row of id 1 has bytes in ageing_ms, which takes a whole number"


@pytest.fixture
def damaged(bus: Bus, bus_dir: Path) -> Path:
    Queue.create(bus, "work", "work.step")
    bus.publish("work.step", 1, from_agent="ann")
    assert store(bus_dir, Column("queues", "ageing_ms"), "x'ff00'")
    return bus_dir


@pytest.mark.slow
def test_http_names_it_in_a_problem(damaged: Path, serve: Serve) -> None:
    answer = serve().get("/v1/queues/work")
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (500, "urn:ackbus:row-damaged")
    assert (problem["table"], problem["row"], problem["column"]) == ("queues", "id 1", "ageing_ms")
    assert NAMED in problem["detail"]


def test_mcp_names_it_to_the_agent(damaged: Path) -> None:
    result = in_process(damaged, lambda me: me.try_to("bus_claim", queue="work"))
    assert result.is_error
    assert NAMED in text_of(result)
    assert "bus doctor" in text_of(result)


@pytest.mark.slow
def test_command_names_it_and_a_repair_puts_it_right(
    bus: Bus, damaged: Path, run_bus: RunBus
) -> None:
    ended = run_bus("queue", "show", "work")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert f"{NAMED}; 'bus doctor --full' tells" in ended.err
    examined = run_bus("doctor", "--full", "--json")
    assert examined.code == 1
    assert any("queues.ageing_ms" in line for line in examined.out.splitlines())
    bus.close()
    assert "LOST" in run_bus("doctor", "--repair").out
    assert run_bus("queue", "list").code in (0, 4)
    assert run_bus("read").code == 0


def test_pushpals_stream_ends_with_an_error_that_names_it(
    bus: Bus, bus_dir: Path, serve: Serve
) -> None:
    bus.heartbeats.beat("bob", "busy")
    assert store(bus_dir, Column("heartbeats", "ts_ms"), "x'ff00'")
    answer = serve("--pushpals", "--open").post("/message", json={"text": "what's my status?"})
    first, last = [json.loads(frame[6:]) for frame in answer.text.split("\n\n")[:-1]]
    assert (answer.status_code, first["type"], last["type"]) == (200, "status", "error")
    assert (
        "in the table heartbeats, the row of agent_id 'bob' has bytes in ts_ms" in last["message"]
    )


def test_error_of_a_pushpals_stream_over_a_whole_bus_stays_what_it_is(bus: Bus) -> None:
    def events() -> Iterator[dict[str, Any]]:
        yield {"type": "status"}
        raise ValueError("of the server")

    with pytest.raises(ValueError, match="of the server"):
        list(ended_by_its_error(events()))
