"""Live streams: replay, then what comes, without a gap, a double, or a loss."""

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from ackbus import Bus, Draft, Message
from ackbus.bus.log.log import Criteria
from ackbus.schema.errors import BusUnusable
from ackbus.server import feed as feed_module
from ackbus.server.feed import BATCH_BYTES, Batch, FeedEvent, FeedHistory, LiveFeed

from ..conftest import RunBus
from .conftest import Serve, problem, serving


def events(response: httpx.Response) -> Iterator[tuple[int, dict[str, Any]]]:
    """The id and data of each event of a stream, as it comes."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and "data" in fields:
            yield int(fields["id"]), json.loads(fields["data"])
            fields = {}


@pytest.mark.slow
def test_replay_and_live_meet_without_a_gap_at_full_speed(serve: Serve, bus: Bus) -> None:
    """U-12, U-20, U-22: more than 10,000 messages of backlog, while others are published."""
    client = serve()
    bus.publish_many([Draft("t", n, from_agent="a") for n in range(12_000)])

    def publish() -> None:
        for n in range(12_000, 15_000):
            bus.publish("t", n, from_agent="a")

    publisher = threading.Thread(target=publish)
    with client.stream("GET", "/v1/events", params={"after": 0}) as response:
        publisher.start()
        stream = islice(events(response), 15_000)
        found = [(seq, message["payload"]) for seq, message in stream]
    publisher.join()
    assert found == [(n + 1, n) for n in range(15_000)]


@pytest.mark.slow
def test_stream_begins_with_what_comes_unless_it_is_told_otherwise(
    client: httpx.Client, bus: Bus
) -> None:
    bus.publish("t", "before", from_agent="a")
    with client.stream("GET", "/v1/events") as response:
        bus.publish("t", "after", from_agent="a")
        assert next(events(response))[1]["payload"] == "after"


@pytest.mark.slow
def test_last_event_id_wins_over_after(client: httpx.Client, bus: Bus) -> None:
    """A browser that comes back asks for the URL that it knows, and sends what it has."""
    for n in range(3):
        bus.publish("t", n, from_agent="a")
    asked = {"params": {"after": 0}, "headers": {"Last-Event-ID": "2"}}
    with client.stream("GET", "/v1/events", **asked) as response:
        assert next(events(response))[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted", [{"type": "job.*"}, {"agent": "b"}, {"conversation": "c"}], ids=lambda w: str(w)
)
def test_stream_has_only_what_is_wanted_from_the_log_and_live(
    client: httpx.Client, bus: Bus, wanted: dict[str, str]
) -> None:
    bus.publish("hello", from_agent="b", correlation_id="other")  # b is known from now on

    def publish() -> list[int]:
        bus.publish("other", from_agent="a")
        wanted = bus.publish("job.x", from_agent="a", to_agent="b", correlation_id="c")
        bus.publish("other", from_agent="a")
        return [wanted.seq]

    seqs = publish()
    with client.stream("GET", "/v1/events", params={"after": 1} | wanted) as response:
        stream = events(response)
        found = [next(stream)[0]]
        seqs += publish()
        found.append(next(stream)[0])
    assert found == seqs


@pytest.mark.slow
def test_websocket_has_the_same_messages(client: httpx.Client, bus: Bus) -> None:
    """U-21: the same lines, in the same order."""
    for n in range(5):
        bus.publish("t", {"n": n}, from_agent="a")
    with connect(str(client.base_url).replace("http", "ws") + "/v1/ws?after=0") as socket:
        found = [socket.recv() for _ in range(5)]
        bus.publish("t", "live", from_agent="a")
        found.append(socket.recv())
    assert found == [message.to_line().decode() for message in bus.read()]


@pytest.mark.slow
def test_stream_from_beyond_the_end_is_refused(client: httpx.Client) -> None:
    assert "newest is 0" in problem(client.get("/v1/events?after=9"), 409, "after-the-end")


def refusal(client: httpx.Client, path: str) -> tuple[int, str]:
    """The code and the reason with which a WebSocket is closed at once."""
    url = str(client.base_url).replace("http", "ws") + path
    with connect(url) as socket, pytest.raises(ConnectionClosedError) as closed:
        socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("after=9", "the newest is 0"),
        ("after=-1", "after: "),
        ("after=x", "after: "),
        ("afer=1", "afer: "),
        ("agent=", "agent: "),
        ("type=.", "no"),
        (f"type=.{'ä' * 100}", "ä"),
        ("after=1&after=2", "more than once"),
    ],
)
def test_websocket_ignores_nothing_that_it_is_asked_for(
    one_client: httpx.Client, query: str, told: str
) -> None:
    """A slip would follow another log than was meant, and nobody would be told."""
    code, reason = refusal(one_client, f"/v1/ws?{query}")
    assert code == 1008
    assert told in reason


@pytest.mark.parametrize(
    ("path", "headers", "status", "kind"),
    [
        ("/v1/wss", {}, 404, "not-found"),
        ("/ws", {}, 404, "not-found"),
        ("/v1/ws", {"Origin": "https://evil.example"}, 403, "foreign-origin"),
        ("/v1/wss", {"Host": "evil.example"}, 403, "foreign-origin"),
    ],
)
def test_websocket_that_is_refused_as_a_request_is_told_why(
    one_client: httpx.Client, path: str, headers: dict[str, str], status: int, kind: str
) -> None:
    """By the problem that any request would be told of."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    problem(one_client.get(path, headers=upgrade | key | headers), status, kind)


def test_websocket_of_a_session_takes_no_filters(one_client: httpx.Client) -> None:
    code, reason = refusal(one_client, "/v1/sessions/s/ws?type=t")
    assert (code, reason.partition(":")[0]) == (1008, "type")


@pytest.mark.slow
def test_stream_that_needs_a_lost_part_of_the_archive_ends_and_says_so(
    serve: Serve, bus: Bus, bus_dir: Path, run_bus: RunBus
) -> None:
    bus.publish_many([Draft("t", n, from_agent="a") for n in range(3)])
    run_bus("archive", "--before", "3")
    (segment,) = (bus_dir / "archive").iterdir()
    segment.unlink()
    client = serve()
    for filters in ("", "&agent=a"):
        with client.stream("GET", f"/v1/events?after=0{filters}") as response:
            *_, said, _ = response.iter_lines()
        assert said.startswith(": ended: messages 1 to 2 are in ")
        assert refusal(client, f"/v1/ws?after=0{filters}")[0] == 1011
    with client.stream("GET", "/v1/events?after=2") as response:
        assert next(events(response))[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize("id", ["x", "-1", "9" * 30, "\u0661"])
def test_last_event_id_that_is_none_of_ours_is_refused(client: httpx.Client, id: str) -> None:
    response = client.get("/v1/events", headers={"Last-Event-ID": id.encode()})
    problem(response, 422, "invalid-input")


@pytest.mark.slow
def test_stream_goes_on_after_a_restart_of_the_server(
    bus_dir: Path, bus: Bus, bus_env: dict[str, str]
) -> None:
    """U-26: the server forgets everything, the bus nothing."""
    found: list[int] = []
    for n in range(3):
        with (
            serving(bus_dir, env=bus_env) as url,
            httpx.Client(base_url=url, timeout=60) as client,
            client.stream("GET", "/v1/events", params={"after": len(found)}) as response,
        ):
            stream = events(response)
            for _ in range(2):
                bus.publish("t", n, from_agent="a")
                found.append(next(stream)[0])
        bus.publish("t", "while it was down", from_agent="a")
        found.append(bus.log.newest_seq())  # the next stream begins after what this one missed
    assert found == list(range(1, 10))


@pytest.mark.slow
def test_server_stops_at_once_though_clients_follow(serve: Serve, bus_dir: Path) -> None:
    with (
        serving(bus_dir) as url,
        httpx.Client(base_url=url) as client,
        client.stream("GET", "/v1/events") as response,
        connect(url.replace("http", "ws") + "/v1/ws"),
    ):
        assert response.status_code == 200


def test_client_that_is_ahead_of_the_feed_lets_it_catch_up(bus: Bus) -> None:
    """It asked the log, of which the feed had not yet heard: looking must not starve it."""

    async def follow() -> int:
        feed = LiveFeed(bus)
        try:
            seq = bus.publish("t", from_agent="a").seq
            async for batch in feed.stream(seq, Criteria(), keep_alive_s=10):
                return batch.events[0].seq
            return 0
        finally:
            await feed.close()

    async def follow_and_publish() -> int:
        following = asyncio.create_task(follow())
        while bus.log.newest_seq() == 0:
            await asyncio.sleep(0.001)
        bus.publish("t", from_agent="a")
        return await asyncio.wait_for(following, 10)

    assert asyncio.run(follow_and_publish()) == 2


def test_defect_does_not_end_the_feed(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """U-22: nobody would notice but by what doesn't come. Nothing is left out."""
    cut, failures = feed_module.cut, iter([RuntimeError("a defect")])

    def fail_once(events: list[FeedEvent]) -> Iterator[Batch]:
        for failure in failures:
            raise failure
        return cut(events)

    monkeypatch.setattr(feed_module, "cut", fail_once)

    async def follow() -> list[int]:
        feed = LiveFeed(bus)
        try:
            seq = bus.publish("t", from_agent="a").seq
            async for batch in feed.stream(seq - 1, Criteria(), keep_alive_s=10):
                return [event.seq for event in batch.events]
            return []
        finally:
            await feed.close()

    assert asyncio.run(follow()) == [1]
    (record,) = caplog.records
    assert "a defect" in record.message
    assert record.exc_info


def test_part_of_the_log_that_fails_when_all_have_left_is_no_error(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bus.publish("t", from_agent="a")
    reading, left = threading.Event(), threading.Event()

    def fail(**which: int) -> Iterator[Message]:
        reading.set()
        left.wait(60)
        raise BusUnusable("damaged")

    monkeypatch.setattr(bus.log, "read", fail)

    async def come_and_go() -> None:
        history = FeedHistory(bus)
        client = asyncio.create_task(history.after(0, 1))
        await asyncio.to_thread(reading.wait, 10)
        client.cancel()
        with suppress(asyncio.CancelledError):
            await client
        left.set()
        await asyncio.wait(history._blocks.values())

    asyncio.run(come_and_go())
    gc.collect()
    assert caplog.records == []


@pytest.mark.slow
def test_stream_that_looks_for_what_is_rare_says_that_it_is_alive_and_can_be_stopped(
    bus: Bus,
) -> None:
    """A thread that read all of a long archive for it could not be stopped."""
    bus.publish_many([Draft("t", n, from_agent="a") for n in range(50_000)])
    last = bus.publish("t", "found", from_agent="b").seq

    async def follow() -> list[Batch]:
        feed = LiveFeed(bus)
        try:
            found: list[Batch] = []
            async for batch in feed.stream(0, Criteria(agent="b"), keep_alive_s=0):
                found.append(batch)
                if batch.events:
                    break
            return found
        finally:
            await feed.close()

    *looked, found = asyncio.run(follow())
    assert [event.seq for event in found.events] == [last]
    assert looked
    assert all(0 < batch.upto < last for batch in looked)


@pytest.mark.parametrize("wanted", [Criteria(), Criteria(type="t")], ids=["all", "filtered"])
def test_no_client_is_sent_more_at_once_than_a_batch_may_hold(bus: Bus, wanted: Criteria) -> None:
    """It is what a client that reads nothing costs, and what a slow one must take in time."""
    bus.publish_many([Draft("t", "x" * 4000, from_agent="a") for _ in range(300)])

    async def follow() -> list[Batch]:
        feed = LiveFeed(bus)
        try:
            found: list[Batch] = []
            async for batch in feed.stream(0, wanted, keep_alive_s=10):
                found.append(batch)
                if batch.upto == 300:
                    break
            return found
        finally:
            await feed.close()

    batches = asyncio.run(follow())
    assert [event.seq for batch in batches for event in batch.events] == list(range(1, 301))
    assert max(batch.size for batch in batches) <= BATCH_BYTES
