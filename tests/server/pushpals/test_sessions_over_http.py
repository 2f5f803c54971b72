"""Sessions over HTTP: codes, forms, approvals, health."""

from urllib.parse import quote

import httpx
import pytest

from ackbus import Bus
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.tasks.control.sessions import SessionEvent, Sessions

from ...conftest import RunBus
from ...tasks.replay import replay
from ..conftest import Serve
from .client import Client
from .conftest import get, post, told

pytestmark = pytest.mark.slow


def events(bus: Bus, session: str = "s1") -> list[SessionEvent]:
    return list(replay(Sessions(bus), session))


@pytest.fixture
def session(door: httpx.Client) -> httpx.Client:
    """The door, with a session `s1`."""
    assert door.post("/sessions", json={"sessionId": "s1"}).status_code == 201
    return door


def test_u_19_a_session_is_made_and_joined(door: httpx.Client) -> None:
    """U-19: 201, 200, 400, 400; without an id it gets one."""
    for id, status in (("s.1_-X", 201), ("s.1_-X", 200)):
        found = door.post("/sessions", json={"sessionId": id})
        assert found.status_code == status
        assert found.json() == {"sessionId": id, "protocolVersion": "0.1.0"}
    for id in ("a b", "x" * 65):
        assert "Invalid sessionId" in post(door, "/sessions", 400, sessionId=id)["message"]
    ids = {door.post("/sessions", content=body).json()["sessionId"] for body in (b"", b"{}", b"[")}
    assert len(ids) == 3


def test_u_24_a_persons_message_begins_a_turn(session: httpx.Client, bus: Bus) -> None:
    """U-24: one `message` from `client`, each with a turn of its own."""
    for body in ({"text": "hello"}, {"text": "go", "intent": {"kind": "ask"}}):
        assert post(session, "/sessions/s1/message", 200, **body) == {"ok": True}
    first, second = (event.envelope for event in events(bus))
    assert (first["type"], first["from"], first["payload"]) == (
        "message",
        "client",
        {"text": "hello"},
    )
    assert second["payload"] == {"text": "go", "intent": {"kind": "ask"}}
    assert first["turnId"] != second["turnId"]
    for bad in (
        {},
        {"text": 7},
        {"text": " "},
        {"text": "x", "intent": "y"},
        {"text": "x", "a": 1},
    ):
        post(session, "/sessions/s1/message", 400, **bad)
    post(session, "/sessions/nowhere/message", 404, text="x")
    assert len(events(bus)) == 2


def test_u_25_an_agent_posts_events(session: httpx.Client, bus: Bus) -> None:
    """U-25, U-15: an unknown type or no payload stores nothing; a bad payload, an error."""
    body = {
        "type": "task_progress",
        "payload": {"taskId": "t", "message": "m", "percent": 50},
        "from": "agent:w1",
        "to": "broadcast",
        "turnId": "t1",
        "correlationId": "c1",
    }
    id = post(session, "/sessions/s1/command", 200, **body)["eventId"]
    (event,) = events(bus)
    assert event.id == id
    assert {name: event.envelope[name] for name in body} == body
    message = bus.get(id)
    assert message is not None
    assert (message.type, message.from_agent) == ("session.task_progress", "agent:w1")
    for bad in ({"type": "nothing", "payload": {}}, {"type": "log"}, {"payload": {}}, {}):
        post(session, "/sessions/s1/command", 400, **bad)
    post(session, "/sessions/nowhere/command", 400, type="done", payload={"ok": True})
    assert len(events(bus)) == 1
    found = post(session, "/sessions/s1/command", 400, type="done", payload={"ok": 1})
    assert found["message"] == "Failed to validate event: /payload/ok must be true or false"
    assert (events(bus)[1].id, events(bus)[1].envelope["type"]) == (found["eventId"], "error")


def test_u_27_a_word_is_given_once(session: httpx.Client, bus: Bus) -> None:
    """U-27: 200; the second 400; another word 400; what nobody asked for 400."""
    for id in ("c1", "c2"):
        call = {"toolCallId": id, "tool": "git", "args": {}, "requiresApproval": True}
        post(session, "/sessions/s1/command", 200, type="tool_call", payload=call)
    post(session, "/approvals/c1", 400, decision="maybe")
    assert post(session, "/approvals/c1", 200, decision="approve") == {"ok": True}
    post(session, "/approvals/c1", 400, decision="approve")
    post(session, "/approvals/c1", 400, decision="deny")
    post(session, "/approvals/c2", 200, decision="deny")
    post(session, "/approvals/c3", 400, decision="deny")
    types = [event.envelope["type"] for event in events(bus)]
    assert types == ["approval_required", "tool_call"] * 2 + ["approved", "denied"]


@pytest.mark.parametrize("id", ["a/b", "a b", "ä", "a%2Fb"])
def test_u_27_an_id_is_any_text(session: httpx.Client, id: str) -> None:
    """U-27: as clients encode it into the path."""
    call = {"toolCallId": id, "tool": "git", "args": {}, "requiresApproval": True}
    post(session, "/sessions/s1/command", 200, type="tool_call", payload=call)
    assert post(session, f"/approvals/{quote(id, safe='')}", 200, decision="deny")


def test_u_27_an_approval_outlives_its_server(bus: Bus, serve: Serve) -> None:
    """U-27, U-26: what waited before a restart waits after it."""
    first = serve("--pushpals", "--open")
    first.post("/sessions", json={"sessionId": "s1"})
    call = {"toolCallId": "c1", "tool": "git", "args": {}, "requiresApproval": True}
    post(first, "/sessions/s1/command", 200, type="tool_call", payload=call)
    second = serve("--pushpals", "--open")
    post(second, "/approvals/c1", 200, decision="approve")
    post(first, "/approvals/c1", 400, decision="approve")


def test_u_28_health_an_unknown_path_and_options(door: httpx.Client) -> None:
    """U-28, X-18: health has the fields of all its readers; the others 404 in JSON, and 204."""
    found = get(door, "/healthz")
    assert (found["ok"], found["protocolVersion"], found["newest_seq"]) == (True, "0.1.0", 0)
    told(door.get("/sessions/s1/nothing"), 404)
    assert door.get("/nothing").status_code == 404
    assert door.get("/nothing").json()
    assert door.options("/sessions").status_code == 204


def test_u_28_a_server_without_the_door_has_no_protocol(client: httpx.Client) -> None:
    """X-18: its health says nothing of it."""
    assert client.get("/healthz").json() == {"ok": True, "newest_seq": 0}


def test_u_29_a_token_guards_sessions(bus: Bus, serve: Serve) -> None:
    """U-29, X-17: 401 without one, 403 without its scope, on every route and both streams."""
    Sessions(bus).create("s1")
    reads = Tokens.of(bus).create("reads", [Scope.MESSAGES_RO])
    writes = Tokens.of(bus).create("writes", [Scope.MESSAGES_RW], agent="w1")
    door = serve("--pushpals")
    paths = ("/sessions", "/sessions/s1/message", "/sessions/s1/command", "/approvals/a")
    for path in paths:
        post(door, path, 401)
    get(door, "/sessions/s1/events", 401)
    assert told(door.get("/sessions/s1/ws", headers=UPGRADE), 401)
    door.headers["Authorization"] = f"Bearer {reads}"
    for path in paths:
        post(door, path, 403)
    door.headers["Authorization"] = f"Bearer {writes}"
    done = {"type": "done", "payload": {"ok": True}}
    post(door, "/sessions/s1/command", 403, **done, **{"from": "w2"})
    post(door, "/sessions/s1/command", 200, **done)
    (event,) = events(bus)
    assert event.envelope["from"] == "w1"
    client = Client(str(door.base_url), "s1", token=writes)
    assert client.emit("done", {"ok": False})["ok"]
    assert [next(stream)["payload"] for stream in [client.events()] for _ in range(2)] == [
        {"ok": True},
        {"ok": False},
    ]


#: What makes a request one for a WebSocket.
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_u_81_a_bus_of_another_version_is_not_served(run_bus: RunBus, bus: Bus) -> None:
    """U-81: one line that names both versions; nothing is read as something else."""
    from ackbus.schema.queries import file_of

    with bus.transaction():
        file_of(bus).connection.execute(
            "UPDATE meta SET value = '999' WHERE key = 'schema_version'"
        )
    found = run_bus("serve", "--port", "0", "--pushpals", "--open")
    assert found.code != 0
    assert "999" in found.err
    assert found.err.count("\n") == 1
