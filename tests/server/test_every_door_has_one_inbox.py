"""One rule of what is mail, asked at every door, of messages that were stored in every way."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.subscribers.requests import Request

from ..conftest import RunBus
from ..programs import raw_sql
from .conftest import serving
from .mcp_clients import in_process

pytestmark = pytest.mark.slow

#: What waits for the asker, of all that `scene` publishes, by payload.
MAIL = ["news", "to asker", "review.x", "many", "reply", "raw", "imported"]


@dataclass
class Doors:
    """All that a reader needs at any door."""

    bus: Bus
    bus_dir: Path
    run_bus: RunBus
    client: httpx.Client


def jobs(bus: Bus) -> list[Request]:
    """Three requests that a worker answers, and whose answers the asker waits for."""
    queue = Queue.create(bus, "t.request")
    Queue.create(bus, "sub", "sub.>", hides="all")
    Queue.create(bus, "looks-on", "news.*")
    for agent in ("asker", "worker", "w"):
        bus.heartbeats.beat(agent)
    asked = [Request.send(bus, "t.request", n, from_agent="asker", id=f"r-{n}") for n in range(3)]
    for sent, claim in zip(asked, queue.claim("w", limit=3), strict=True):
        queue.complete(
            claim, Draft("t.done", "done", from_agent="w", to_agent="asker", in_reply_to=sent.id)
        )
    return asked


@pytest.fixture
def doors(
    bus: Bus, bus_dir: Path, run_bus: RunBus, bus_env: dict[str, str], project: Path
) -> Iterator["Doors"]:
    with serving(bus_dir, env=bus_env) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield scene(Doors(bus, bus_dir, run_bus, client), project)


@pytest.mark.filterwarnings("ignore::ackbus.errors.UnservedRequestWarning")
def scene(doors: Doors, project: Path) -> Doors:
    bus = doors.bus
    for sent in jobs(bus):
        assert sent.wait(30).state == "success"
    bus.publish("note", "own broadcast", from_agent="asker")
    bus.publish("news.a", "news", from_agent="w")
    bus.publish("t.request", "to asker", from_agent="w", to_agent="asker")
    bus.publish("t.request", "to worker", from_agent="asker", to_agent="worker")
    bus.publish("sub.a.b", "hidden", from_agent="w")
    Inbox(bus, "asker").want("review.>", "news.>")
    root = bus.publish("review.x", "review.x", from_agent="w")
    bus.publish("chatter", "not wanted", from_agent="w")
    bus.publish_many(
        [
            Draft("t.request", "many jobs", from_agent="w"),
            Draft("review.y", "many", from_agent="w"),
        ]
    )
    bus.publish("review.z", "reply", from_agent="w", in_reply_to=root.id)
    raw_sql(
        doors.bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        " VALUES ('raw-job', 1, 'w', 'sub.raw', '1'), ('raw', 1, 'w', 'review.raw', '\"raw\"')",
    )
    lines = [
        {"id": "i-1", "from": "w", "type": "t.request", "payload": "imported job"},
        {"id": "i-2", "from": "w", "type": "review.i", "payload": "imported"},
    ]
    (project / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = doors.run_bus("import", project / "in.jsonl")
    assert done.code == 0, done.err
    return doors


def _over_mcp(doors: Doors) -> list[object]:
    page = in_process(doors.bus_dir, lambda me: me.call("bus_inbox"), name="asker")
    assert page["unread"] == len(page["messages"])
    return [message["payload"] for message in page["messages"]]


def _by_command(doors: Doors) -> list[object]:
    lines = doors.run_bus("poll", "asker", "--json").out.splitlines()
    return [json.loads(line)["payload"] for line in lines]


def _over_http(doors: Doors) -> list[object]:
    found = doors.client.get("/v1/inboxes/asker").json()["messages"]
    return [message["payload"] for message in found]


#: What each door shows of the inbox.
SHOWS: dict[str, Callable[[Doors], list[object]]] = {
    "library": lambda doors: [each.payload for each in Inbox(doors.bus, "asker").poll()],
    "command": _by_command,
    "HTTP": _over_http,
    "MCP": _over_mcp,
}

#: How many messages each door says are unread.
COUNTS: dict[str, Callable[[Doors], int]] = {
    "library": lambda doors: Inbox(doors.bus, "asker").unread(),
    "bus inbox": lambda doors: json.loads(doors.run_bus("inbox", "asker", "--json").out)["unread"],
    "bus prompt": lambda doors: int(doors.run_bus("prompt", "asker", "--format", "{}").out),
    "HTTP, and the page": lambda doors: next(
        each["unread"]
        for each in doors.client.get("/v1/inboxes").json()["inboxes"]
        if each["agent"] == "asker"
    ),
    "metrics": lambda doors: int(
        re.findall(r'inbox_unread{agent="asker"} (\d+)', doors.client.get("/metrics").text)[0]
    ),
    "bus_status": lambda doors: in_process(
        doors.bus_dir, lambda me: me.call("bus_status"), name="asker"
    )["unread"],
}


def test_every_door_shows_the_same_mail(doors: Doors) -> None:
    """Of a bus with three answered requests, own broadcasts, queues of patterns, and wants."""
    assert {door: show(doors) for door, show in SHOWS.items()} == dict.fromkeys(SHOWS, MAIL)
    counts = {door: count(doors) for door, count in COUNTS.items()}
    assert counts == dict.fromkeys(COUNTS, len(MAIL))
    worker = [each.payload for each in Inbox(doors.bus, "worker").poll() if each.to_agent]
    assert worker == ["to worker"]
