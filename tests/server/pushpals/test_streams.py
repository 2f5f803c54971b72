"""The streams of sessions: replay and live by SSE and WebSocket, over drops, restarts and kills."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ackbus import Bus
from ackbus.export.backup import back_up
from ackbus.server.connections import ClientTimeouts
from ackbus.tasks.control.sessions import SessionEvent, Sessions

from ...tasks.replay import replay
from ..conftest import BUS, serving
from .client import Client, frames
from .cutter import cutter

pytestmark = pytest.mark.slow

BOTH = ["sse", "ws"]


@pytest.fixture
def sessions(bus: Bus) -> Sessions:
    found = Sessions(bus)
    found.create("s1")
    return found


def say(sessions: Sessions, count: int, session: str = "s1") -> list[int]:
    """Stores events, each in a transaction of its own."""
    return [sessions.emit(session, "assistant_message", {"text": str(n)}).seq for n in range(count)]


def client_of(door: httpx.Client, transport: str, **more: Any) -> Client:
    return Client(str(door.base_url).rstrip("/"), "s1", {"PUSHPALS_TRANSPORT": transport}, **more)


def took(client: Client, count: int) -> list[str]:
    """The texts of the next events that a client has."""
    return [envelope["payload"]["text"] for envelope in islice(client.events(), count)]


def test_u_20_the_frames_are_those_of_pushpals(door: httpx.Client, sessions: Sessions) -> None:
    """U-20: `id: N`, `data: {envelope, cursor}`; an event id that comes back wins over `after`."""
    seqs = say(sessions, 3)
    (event, *_) = replay(sessions, "s1")
    with door.stream("GET", "/sessions/s1/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        lines = response.iter_lines()
        found = [line for line in islice(lines, 12) if line.startswith(("id", "data"))]
    assert found[:2] == [f"id: {seqs[0]}", f"data: {event.frame().decode()}"]
    headers = {"Last-Event-ID": str(seqs[1])}
    with door.stream("GET", "/sessions/s1/events?after=0", headers=headers) as response:
        assert next(frames(response))[0] == seqs[2]


def test_u_20_a_session_that_is_not_there_is_404(door: httpx.Client, sessions: Sessions) -> None:
    """U-20, U-21: for both transports, in JSON."""
    response = door.get("/sessions/nowhere/events")
    assert (response.status_code, response.json()["ok"]) == (404, False)
    url = str(door.base_url).replace("http", "ws")
    with pytest.raises(InvalidStatus) as refused, connect(f"{url}/sessions/nowhere/ws"):
        pass
    assert refused.value.response.status_code == 404


def test_u_20_a_quiet_stream_shows_that_it_lives(bus: Bus, sessions: Sessions) -> None:
    """U-20: a comment every 15 s, also while other sessions are told of things."""
    from types import SimpleNamespace

    from ackbus.server.feed import LiveFeed
    from ackbus.server.pushpals.streams import _batches

    assert ClientTimeouts().keep_alive_s == 15
    sessions.create("s2")

    async def follow() -> tuple[bytes, list[int]]:
        feed = LiveFeed(bus)
        state = SimpleNamespace(
            server=SimpleNamespace(state=SimpleNamespace(feed=feed)),
            patience=ClientTimeouts(keep_alive_s=0.05),
        )
        connection: Any = SimpleNamespace(app=SimpleNamespace(state=state))
        stop = threading.Event()

        def disturb() -> None:
            while not stop.wait(0.001):
                say(sessions, 1, "s2")

        disturber = threading.Thread(target=disturb)
        disturber.start()
        try:
            stream = _batches(connection, sessions, "s1", 0)
            quiet = await anext(stream)
            await asyncio.to_thread(say, sessions, 1)
            async for batch in stream:
                if batch.events:
                    return quiet.sse, [event.seq for event in batch.events]
            raise AssertionError
        finally:
            stop.set()
            disturber.join()
            await feed.close()

    comment, seqs = asyncio.run(follow())
    assert comment == b": keepalive\n\n"
    assert seqs == [event.seq for event in replay(sessions, "s1")]


@pytest.mark.parametrize("after", ["1000000000", "-5", "x", ""])
def test_u_13_a_cursor_that_is_ahead_or_none_begins_at_the_beginning(
    door: httpx.Client, sessions: Sessions, after: str
) -> None:
    """U-13, X-06: over HTTP as well, by both transports."""
    seqs = say(sessions, 2)
    with door.stream("GET", "/sessions/s1/events", params={"after": after}) as response:
        assert [cursor for cursor, _ in islice(frames(response), 2)] == seqs
    url = str(door.base_url).replace("http", "ws").rstrip("/")
    with connect(f"{url}/sessions/s1/ws?after={after}") as socket:
        assert f'"cursor":{seqs[0]}' in str(socket.recv(20))


def test_a_client_of_a_newer_bus_hears_all_of_a_restored_one(
    bus: Bus, sessions: Sessions, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """X-06, U-13: its cursor is ahead of the restored bus, and begins at 0."""
    say(sessions, 2)
    back_up(bus, tmp_path / "old")
    newest = say(sessions, 3)[-1]
    with (
        serving(tmp_path / "old", "--pushpals", "--open", env=bus_env) as url,
        httpx.stream("GET", f"{url}/sessions/s1/events", params={"after": newest}) as response,
    ):
        assert len(list(islice(frames(response), 2))) == 2


def test_u_21_both_transports_have_the_same(door: httpx.Client, sessions: Sessions) -> None:
    """U-21, U-78: the same envelopes by the same cursors, live and in replay, small and large."""
    say(sessions, 2)
    streams = [client_of(door, transport) for transport in BOTH]
    followers = [client.events() for client in streams]
    live = [[next(follower) for _ in range(2)] for follower in followers]
    sessions.emit("s1", "diff_ready", {"unifiedDiff": "+" * 90_000, "diffStat": "", "branch": "b"})
    say(sessions, 2)
    for had, follower in zip(live, followers, strict=True):
        had += [next(follower) for _ in range(3)]
    again = [list(islice(client_of(door, transport).events(), 5)) for transport in BOTH]
    stored = [event.envelope for event in replay(sessions, "s1")]
    assert live == again == [stored, stored]
    assert {client.cursor for client in streams} == {bus_end(sessions)}
    for follower in followers:
        follower.close()


def bus_end(sessions: Sessions) -> int:
    return sessions.bus.log.newest_seq()


@pytest.mark.parametrize("transport", BOTH)
def test_u_22_replay_and_live_meet_without_a_gap(
    door: httpx.Client, sessions: Sessions, transport: str
) -> None:
    """U-22, U-12: a backlog of 2,000, while this session and another are told at full speed."""
    sessions.create("s2")
    with sessions.bus.transaction():
        say(sessions, 2000)

    def tell() -> None:
        for n in range(2000, 2500):
            sessions.emit("s1", "assistant_message", {"text": str(n)})
            sessions.emit("s2", "done", {"ok": True})

    teller = threading.Thread(target=tell)
    client = client_of(door, transport)
    teller.start()
    found = took(client, 2500)
    teller.join()
    assert found == [str(n) for n in range(2500)]
    assert client.connections == [transport]


@pytest.mark.parametrize("transport", BOTH)
def test_u_23_a_client_that_is_cut_off_20_times_misses_nothing(
    door: httpx.Client, sessions: Sessions, transport: str
) -> None:
    """U-23, U-78: it comes back from its last cursor; each event comes once."""
    with cutter(urlsplit(str(door.base_url)).port or 0) as way:
        client = Client(way.url, "s1", {"PUSHPALS_TRANSPORT": transport}, reconnect_s=0.5)
        assert client.join() == 200
        stream = client.events()
        found = []
        for n in range(21):
            say(sessions, 2)
            found += [next(stream)["payload"]["text"] for _ in range(2)]
            if n < 20:
                way.cut()
        assert found == ["0", "1"] * 21
        assert client.connections == [transport] * 21
        stream.close()


def test_u_23_a_client_takes_the_other_transport_where_one_fails(
    door: httpx.Client, sessions: Sessions
) -> None:
    """U-23: by itself, if its environment names none."""
    client = client_of(door, "auto", reconnect_s=0.5)
    with cutter(urlsplit(str(door.base_url)).port or 0) as way:
        client.url = way.url
        stream = client.events()
        for _ in range(3):
            say(sessions, 1)
            next(stream)
            way.cut()
        say(sessions, 1)
        next(stream)
        stream.close()
    assert client.connections[0] == "sse"
    assert "ws" in client.connections


@pytest.mark.parametrize("transport", BOTH)
def test_u_26_a_restarted_server_knows_its_sessions(
    bus_dir: Path, sessions: Sessions, bus_env: dict[str, str], transport: str
) -> None:
    """U-26, U-08: the server forgets everything; clients go on by their cursors."""
    cursor = 0
    found = []
    for _ in range(2):
        with serving(bus_dir, "--pushpals", "--open", env=bus_env) as url:
            client = Client(url, "s1", {"PUSHPALS_TRANSPORT": transport}, cursor=cursor)
            stream = client.events()
            say(sessions, 2)
            found += [next(stream)["payload"]["text"] for _ in range(2)]
            cursor = client.cursor
            stream.close()
    assert found == ["0", "1", "0", "1"]


def test_u_10_an_event_that_is_stored_and_not_sent_is_replayed(
    bus_dir: Path, sessions: Sessions, bus_env: dict[str, str]
) -> None:
    """U-10: kill -9 of the server between the commit and what it would send."""
    words = [str(BUS), "serve", "--json", "--port", "0", "--dir", str(bus_dir)]
    door = ["--pushpals", "--open"]
    with (
        subprocess.Popen([*words, *door], stdout=subprocess.PIPE, env=bus_env, text=True) as server,
        httpx.stream("GET", f"{_url_of(server)}/sessions/s1/events", timeout=60) as response,
    ):
        stream = frames(response)
        (sent,) = say(sessions, 1)
        assert next(stream)[0] == sent
        os.kill(server.pid, signal.SIGSTOP)
        (unsent,) = say(sessions, 1)
        os.kill(server.pid, signal.SIGKILL)
        server.wait(60)
        with pytest.raises(httpx.HTTPError):
            next(stream)
    with (
        serving(bus_dir, "--pushpals", "--open", env=bus_env) as url,
        httpx.stream("GET", f"{url}/sessions/s1/events", params={"after": sent}) as response,
    ):
        assert next(frames(response))[0] == unsent


def _url_of(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return str(json.loads(server.stdout.readline())["url"])


def test_u_10_nobody_hears_of_what_is_not_stored(door: httpx.Client, sessions: Sessions) -> None:
    """U-10: of a change that is undone nothing is sent; the next that is kept comes next."""
    stream = client_of(door, "sse").events()
    say(sessions, 1)
    next(stream)

    def fail() -> None:
        with sessions.bus.transaction():
            say(sessions, 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    kept = sessions.emit("s1", "done", {"ok": True})
    assert next(stream)["id"] == kept.id
    stream.close()


def test_u_78_the_events_of_a_day_are_the_same_in_replay(
    door: httpx.Client, sessions: Sessions
) -> None:
    """U-78: what a client heard live, what another replays, and what is stored are one list."""
    client = client_of(door, "sse")
    heard: Iterator[dict[str, Any]] = client.events()
    said: list[SessionEvent] = []
    live = []
    for n in range(50):
        said.append(sessions.emit("s1", "log", {"level": "info", "message": str(n)}))
        live.append(next(heard))
    heard.close()  # type: ignore[attr-defined]
    replayed = list(islice(client_of(door, "ws").events(), 50))
    assert live == replayed == [event.envelope for event in said]
