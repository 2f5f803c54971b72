"""The stream of events, by a client that comes back."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ackbus import Bus

from ..conftest import Folder
from ..running import response
from .serving import API, KEYS, Served, api_of, problem


@pytest.fixture
def served(bus: Bus, folder: Folder) -> Iterator[Served]:
    folder.plugin("loud", run=response(events=[{"type": "seen", "payload": {"n": 1}}]))
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {loud: {enabled: true}}
        """,
    )
    with api_of(bus, folder) as served:
        yield served


def follow(client: httpx.Client, count: int, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    """Reads so many events, each with its id."""
    found = []
    with client.stream("GET", "/events?after=0", headers=headers) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        id = 0
        for line in stream.iter_lines():
            if line.startswith("id: "):
                id = int(line.removeprefix("id: "))
            elif line.startswith("data: "):
                found.append((id, json.loads(line.removeprefix("data: "))))
                if len(found) == count:
                    break
    return found


@pytest.mark.slow
def test_events_are_those_of_automation_and_go_on_where_a_client_left(served: Served) -> None:
    served.bus.publish("note", "private", from_agent="a")
    trigger = served.client()
    jobs = [trigger.post("/plugin/loud/poll").json()["job_id"] for _ in range(2)]
    for job in jobs:
        served.running.ended(job)
    client = served.client(KEYS["EVENTS_RO"])
    all_of_them = follow(client, 6)
    types = Counter(message["type"] for _, message in all_of_them)
    assert types == {"plugin.loud.poll": 2, "plugin.event": 2, "plugin.ended": 2}
    assert {message["id"] for _, message in all_of_them} > set(jobs)
    again = follow(client, 5, **{"Last-Event-ID": str(all_of_them[0][0])})
    assert again == all_of_them[1:]


@pytest.mark.slow
def test_a_stream_needs_a_scope_and_a_place_in_the_log(served: Served) -> None:
    problem(served.client(KEYS["JOBS_RW"]).get("/events"), 403, "forbidden")
    client = served.client(KEYS["EVENTS_RO"])
    for wrong, status in (("?after=-1", 400), ("?after=x", 400), ("?after=999", 409)):
        assert client.get(f"/events{wrong}").status_code == status
    assert client.get("/events", headers={"Last-Event-ID": "last"}).status_code == 400


def test_a_stream_ends_with_the_service(served: Served) -> None:
    with served.client().stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        served.close()
        assert any("ended: the server stops" in line for line in lines)
