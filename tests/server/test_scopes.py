"""The scope that each operation needs of a token, and the agent that it acts as."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIWebSocketRoute
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ackbus import Bus, Queue
from ackbus.errors import NotActedUponWarning
from ackbus.schema.message.names import MAX_SEQ
from ackbus.schema.message.patterns import ACTED_TYPES
from ackbus.server.access.access import BusAccess, plain
from ackbus.server.access.table import AUTOMATION, PUSHPALS, SERVER, TOOLS, AccessRule
from ackbus.server.access.tokens import Principal, Scope, Tokens
from ackbus.server.automation.app import ROUTERS as AUTOMATION_ROUTERS
from ackbus.server.mcp.tools.catalog import KINDS, tools_of
from ackbus.server.pushpals.app import create_door
from ackbus.server.running import create_app

from ..sizes import case
from .conftest import problem, serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bus, httpx.Client]]:
    """A bus with a token, and a client of its server that shows none."""
    directory = tmp_path_factory.mktemp("project") / ".worker-state"
    with Bus.init(directory) as bus:
        Tokens.of(bus).create("root", [Scope.ADMIN])
        with (
            serving(Path(directory), "--pushpals") as url,
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            yield bus, client


def bearer(bus: Bus, name: str, *scopes: Scope, agent: str | None = None) -> dict[str, str]:
    token = Tokens.of(bus).create(name, scopes, agent=agent)
    return {"Authorization": f"Bearer {token}"}


#: What stands in the paths of the table here.
VALUES = {"agent": "a", "kind": "inbox", "ref": "sha256-" + "0" * 64, "seq": "1", "token": "1"}
VALUES |= dict.fromkeys(("name", "queue", "key", "conversation", "id", "session"), "x")

#: The doors of one server, and what it serves that has no scopes: MCP has those of its tools.
DOORS = SERVER | PUSHPALS


def operations() -> Iterator[tuple[str, str, AccessRule]]:
    """Every operation: its method, a path that fits, and its row."""
    for operation, row in DOORS.items():
        method, path = operation.split(" ")
        # A stream has no end.
        after = f"?after={MAX_SEQ}" if path.endswith(("/events", "/ws")) else ""
        yield method, path.format_map(VALUES) + after, row


def status_of(client: httpx.Client, method: str, path: str, headers: dict[str, str]) -> int:
    """The status of a request without a body; of a WebSocket, of what it is closed for."""
    if method != "WS":
        return client.request(method, path, headers=headers).status_code
    url = f"{str(client.base_url).replace('http', 'ws').rstrip('/')}{path}"
    try:
        with connect(url, additional_headers=headers) as socket:
            socket.recv(timeout=60)
    except InvalidStatus as refused:
        return refused.response.status_code
    except ConnectionClosed as closed:
        why_closed = "" if closed.rcvd is None else closed.rcvd.reason
        reasons = {"show a token": 401, "this token has no scope": 403, "there is no message": 409}
        return next(status for why, status in reasons.items() if why in why_closed)
    raise AssertionError(path)


def test_no_operation_is_missing_in_the_table_and_none_is_too_many(bus: Bus) -> None:
    """A new one fails here, and where it is added, until the table says what it needs."""
    app, access = create_app(bus, BusAccess(bus)), BusAccess(bus)
    served = set(routed(app)) - {"WS /{path}", "GET /v1", "GET /mcp", "GET /v1/openapi.json"}
    assert served == SERVER.keys()
    assert set(routed(create_door(bus, access))) == PUSHPALS.keys()
    assert {each for router in AUTOMATION_ROUTERS for each in routed(router)} == (
        AUTOMATION.keys() - {"GET /openapi.json"}  # that is FastAPI's own
    )
    assert {*tools_of("full"), *(kind.template for kind in KINDS)} == TOOLS.keys()


def routed(app: FastAPI | APIRouter) -> Iterator[str]:
    """The operations of an application, as the table names them."""
    for route in app.routes:
        inner = getattr(route, "original_router", None)  # of a router that was included
        if inner is not None:
            yield from routed(inner)
        elif isinstance(route, WebSocketRoute | APIWebSocketRoute):
            yield f"WS {plain(route.path)}"
        elif isinstance(route, Route):
            methods = (route.methods or {"GET"}) - (
                {"HEAD"} if "GET" in (route.methods or ()) else set()
            )
            yield from (f"{method} {plain(route.path)}" for method in methods)


@pytest.mark.slow
def test_every_operation_but_the_open_ones_needs_a_token(
    guarded: tuple[Bus, httpx.Client],
) -> None:
    _, client = guarded
    for method, path, row in operations():
        status = status_of(client, method, path, {})
        assert (status == 401) == (row.scopes is not None), (method, path, status)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "agent"),
    [
        case(scope, agent, id=f"{scope}-{agent or 'any'}", by_day=number % 2 == (agent is None))
        for number, scope in enumerate(Scope)
        for agent in (None, "a")
    ],
)
def test_every_operation_lets_in_those_with_its_scopes_alone(
    guarded: tuple[Bus, httpx.Client], scope: Scope, agent: str | None
) -> None:
    """Each cell of the table; what is refused stores nothing."""
    bus, client = guarded
    headers = bearer(bus, f"{agent}.{scope.replace(':', '.')}", scope, agent=agent)
    only = Principal("x", frozenset([scope]))
    for method, path, row in operations():
        may = all(map(only.may, row.scopes or ()))
        newest = bus.log.newest_seq()
        status = status_of(client, method, path, headers)
        assert (status != 403) == may, (method, path, status)
        assert may or bus.log.newest_seq() == newest, (method, path)


@pytest.mark.parametrize(
    "operation", [each for each, row in DOORS.items() if len(row.scopes or ()) > 1]
)
def test_an_operation_that_needs_several_scopes_needs_each(
    guarded: tuple[Bus, httpx.Client], operation: str
) -> None:
    bus, client = guarded
    method, path = operation.split(" ")
    scopes = sorted(DOORS[operation].scopes or ())
    name = f"{method}{len(path)}.{abs(hash(path))}"
    for missing in scopes:
        headers = bearer(bus, f"{name}.{missing[:4]}", *(set(scopes) - {missing}))
        refused = client.request(method, path.format_map(VALUES), headers=headers)
        assert refused.status_code == 403, refused.text
        assert f"this token has no scope '{missing}'; 'bus token create NAME" in refused.text
    allowed = client.request(
        method, path.format_map(VALUES), headers=bearer(bus, f"{name}.all", *scopes)
    )
    assert allowed.status_code != 403, allowed.text


def test_who_asks_is_asked_before_the_request_is_read(guarded: tuple[Bus, httpx.Client]) -> None:
    """A client without a token can't make the server decode 17 MiB of JSON."""
    _, client = guarded
    headers = {"Content-Type": "application/json"}
    problem(client.post("/v1/messages", content=b"{", headers=headers), 401, "unauthorized")
    problem(client.get("/v1/messages", params={"afetr": 1}), 401, "unauthorized")
    url = client.base_url
    with socket.create_connection((url.host, url.port)) as connection:
        head = f"POST /v1/messages HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 9000000\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
        assert b" 401 " in connection.recv(1000).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages/batch", {"messages": [{"type": "t", "from": "b"}]}),
        ("/v1/requests", {"type": "x.request", "from": "b"}),
        ("/v1/sessions/s/message", {"text": "hello", "from": "b"}),
        ("/v1/inboxes/b/ack", {"seq": 1}),
        ("/v1/inboxes/b/complete", {"seq": 1}),
        ("/v1/inboxes/b/fail", {"seq": 1, "error": "x"}),
        ("/v1/inboxes/b/parked/drop", {"seqs": [1]}),
        ("/v1/agents/b/heartbeat", {}),
        ("/v1/leases", {"name": "n", "holder": "b"}),
        ("/v1/leases/1/renew", {}),
        ("/v1/leases/1/release", {}),
        ("/v1/reservations", {"paths": ["x"], "agent": "b"}),
        ("/v1/reservations/2/renew", {}),
        ("/v1/reservations/2/release", {}),
        ("/v1/queues/q/claims", {"worker": "a", "group": "b"}),
        ("/v1/claims/1/complete", {}),
    ],
)
def test_bound_token_acts_for_no_other_agent(
    guarded: tuple[Bus, httpx.Client], path: str, body: dict[str, object]
) -> None:
    bus, client = guarded
    if bus.log.newest_seq() == 0:
        Queue.create(bus, "q", "q")
        bus.publish("q", from_agent="b")
        Queue.open(bus, "q").claim("b", lease_s=600)
        lease = bus.leases.acquire("held", "b", lease_s=600)
        (reserved,) = bus.reservations.reserve(["held"], "b").reservations
        assert lease is not None
        assert (lease.token, reserved.token) == (1, 2)
    headers = bearer(bus, f"a{path.replace('/', '.')}", Scope.MESSAGES_RW, Scope.WORK_RW, agent="a")
    newest = bus.log.newest_seq()
    problem(client.post(path, json=body, headers=headers), 403, "forbidden")
    assert bus.log.newest_seq() == newest


def test_bound_token_says_who_acts(guarded: tuple[Bus, httpx.Client]) -> None:
    """The body names no agent."""
    bus, client = guarded
    Queue.create(bus, "bound", "bound")
    bus.publish("bound", from_agent="lead")
    headers = bearer(bus, "me", Scope.MESSAGES_RW, Scope.WORK_RW, agent="me")

    def post(path: str, **body: object) -> dict[str, Any]:
        response = client.post(path, json=body, headers=headers)
        assert response.is_success, response.text
        return dict(response.json()) if response.content else {}

    post("/v1/messages", type="t", id="said-1")
    post("/v1/messages/batch", messages=[{"type": "t", "id": "said-2"}])
    post("/v1/requests", type="x.request", id="said-3")
    post("/v1/sessions/s/message", text="hello", id="said-4")
    senders = [bus.get(f"said-{n}").from_agent for n in range(1, 5)]  # type: ignore[union-attr]
    assert senders == ["me"] * 4
    (claim,) = post("/v1/queues/bound/claims", worker="process-1")["claims"]
    assert (claim["group"], claim["worker"]) == ("me", "process-1")
    lease = post("/v1/leases", name="bound")
    assert lease["holder"] == "me"
    for act in ("renew", "release"):
        post(f"/v1/leases/{lease['token']}/{act}")
    (held,) = post("/v1/reservations", paths=["bound"])["reservations"]
    assert held["agent"] == "me"
    for act in ("renew", "release"):
        post(f"/v1/reservations/{held['token']}/{act}")


def test_without_a_bound_token_a_body_says_who_acts(guarded: tuple[Bus, httpx.Client]) -> None:
    bus, client = guarded
    headers = bearer(bus, "anybody", Scope.ADMIN)
    for path, body, field in (
        ("/v1/messages", {"type": "t"}, "from"),
        ("/v1/leases", {"name": "n"}, "holder"),
        ("/v1/reservations", {"paths": ["x"]}, "agent"),
    ):
        response = client.post(path, json=body, headers=headers)
        assert f"'{field}' is missing" in problem(response, 422, "invalid-input")


def test_bound_token_reads_no_other_inbox(guarded: tuple[Bus, httpx.Client]) -> None:
    bus, client = guarded
    headers = bearer(bus, "reader", Scope.MESSAGES_RO, agent="a")
    problem(client.get("/v1/inboxes/b", headers=headers), 403, "forbidden")
    problem(client.get("/v1/parked", params={"agent": "b"}, headers=headers), 403, "forbidden")
    assert client.get("/v1/inboxes/a", headers=headers).status_code == 200


def test_what_changes_things_for_all_needs_admin(guarded: tuple[Bus, httpx.Client]) -> None:
    bus, client = guarded
    headers = bearer(bus, "worker", Scope.MESSAGES_RW, Scope.WORK_RW)
    for method, path, body in (
        ("POST", "/v1/queues/q/purge", None),
        ("POST", "/v1/queues/q/skip", None),
        ("PATCH", "/v1/queues/q", {"max_running": 1}),
        ("PUT", "/v1/limits/inbox/a", {"max_waiting": 1}),
        ("DELETE", "/v1/limits/inbox/a", None),
    ):
        response = client.request(method, path, json=body, headers=headers)
        assert "'admin'" in problem(response, 403, "forbidden")


def test_scope_of_work_opens_no_way_to_all_messages(guarded: tuple[Bus, httpx.Client]) -> None:
    """A queue of everything would."""
    bus, client = guarded
    headers = bearer(bus, "snoop", Scope.WORK_RW)
    refused = client.put("/v1/queues/snoop", json={"type": ">"}, headers=headers)
    assert "messages:ro" in problem(refused, 403, "forbidden")


def test_trace_needs_both_scopes(guarded: tuple[Bus, httpx.Client]) -> None:
    bus, client = guarded
    headers = bearer(bus, "half", Scope.MESSAGES_RO)
    assert "work:ro" in problem(client.get("/v1/trace/1", headers=headers), 403, "forbidden")


#: Types that are acted upon, one of each kind.
ACTED = [(each.pattern.replace(">", "echo.poll"), each.scope) for each in ACTED_TYPES]


@pytest.mark.requirement("D-59", "D-120")
@pytest.mark.parametrize(("type", "scope"), [*ACTED, ("plugin.event", "plugin:rw")])
def test_each_way_to_publish_what_is_acted_upon_needs_its_scope(
    guarded: tuple[Bus, httpx.Client], type: str, scope: str
) -> None:
    bus, client = guarded
    both = (Scope.MESSAGES_RW, Scope.WORK_RW)
    headers = bearer(bus, f"mail.{type}", *both, agent="a")
    Queue.create(bus, f"for.{type}", f"for.{type}")
    asked = bus.publish("note", from_agent="b")
    bus.publish(f"for.{type}", from_agent="b")
    claim = Queue.open(bus, f"for.{type}").claim("a", lease_s=600)[0]
    reply = {"replies": [{"type": type, "to": "automation"}]}
    ways = [
        ("/v1/messages", {"type": type, "to": "automation"}),
        ("/v1/messages/batch", {"messages": [{"type": "note"}, {"type": type}]}),
        ("/v1/inboxes/a/complete", {"seq": asked.seq, **reply}),
        (f"/v1/claims/{claim.token}/complete", reply),
        (f"/v1/claims/{claim.token}/fail", {"error": "no", **reply}),
        ("/v1/requests", {"type": type, "success_type": "x.done"}),
    ]
    newest = bus.log.newest_seq()
    for path, body in ways:
        refused = client.post(path, json=body, headers=headers)
        assert f"'{scope}'" in problem(refused, 403, "forbidden"), path
    assert bus.log.newest_seq() == newest
    may = bearer(bus, f"run.{type}", *both, Scope(scope), agent="a")
    for path, body in (ways[0], ways[1], ways[2], ways[3], ways[5]):
        done = client.post(path, json=body, headers=may)
        assert done.is_success, (path, done.text)
    assert bus.log.newest_seq() > newest


@pytest.mark.parametrize(("type", "scope"), ACTED)
def test_queues_of_what_is_acted_upon_are_changed_with_its_scope_alone(
    guarded: tuple[Bus, httpx.Client], type: str, scope: str
) -> None:
    """Made, paused, and their jobs claimed, ended, retried and dropped; by patterns, too."""
    bus, client = guarded
    both = (Scope.MESSAGES_RW, Scope.WORK_RW)
    headers = bearer(bus, f"takes.{type}", *both)
    word = type.split(".")[0]
    for pattern in (type, f"{word}.>", ">", f"*.{type.split('.', 1)[1]}"):
        refused = client.put("/v1/queues/stolen", json={"type": pattern}, headers=headers)
        assert "has no scope" in problem(refused, 403, "forbidden"), pattern
    queue = Queue.create(bus, f"q.{type}", type, max_attempts=1, addressed="x")
    bus.publish("hello", from_agent="x")  # so that it is known
    with pytest.warns(NotActedUponWarning):
        bus.publish(type, from_agent="b", to_agent="x")
    claim = queue.claim("a", lease_s=600)[0]
    ends = (f"/v1/claims/{claim.token}/{act}" for act in ("renew", "complete", "release"))
    base = f"/v1/queues/q.{type}"
    changes = [
        f"{base}/pause",
        f"{base}/resume",
        *(f"{base}/jobs/1/{a}" for a in ("retry", "cancel")),
    ]
    changes += [f"/v1/dead-letters/q.{type}/{act}" for act in ("requeue", "drop")]
    is_for_workers = type in ("task.request", "task.job")
    for path in [*changes, *([] if is_for_workers else [f"{base}/claims", *ends])]:
        body = {"seqs": [1]} if "dead" in path else {"worker": "a"} if "claims" in path[-7:] else {}
        refused = client.post(path, json=body, headers=headers)
        assert f"'{scope}'" in problem(refused, 403, "forbidden"), path
    taken = client.post(f"{base}/claims", json={"worker": "a"}, headers=headers)
    assert taken.is_success == is_for_workers
    may = bearer(bus, f"takes.all.{type}", *both, Scope(scope))
    assert client.post(f"{base}/pause", json=None, headers=may).is_success
    assert client.post(f"/v1/claims/{claim.token}/complete", json={}, headers=may).is_success


def test_queues_and_leases_of_tasks_and_mail_of_others_are_out_of_reach(
    guarded: tuple[Bus, httpx.Client],
) -> None:
    bus, client = guarded
    headers = bearer(bus, "squats", Scope.MESSAGES_RW, Scope.WORK_RW, agent="a")
    for name in ("requests", "jobs", "completions", "plugin.echo"):
        refused = client.put(f"/v1/queues/{name}", json={"type": "note"}, headers=headers)
        problem(refused, 403, "forbidden")
    theirs = {"type": "note", "policy": {"addressed": "b"}}
    problem(client.put("/v1/queues/theirs", json=theirs, headers=headers), 403, "forbidden")
    lease = bus.leases.acquire("task.fix", "a")
    assert lease is not None
    for path, body in (
        ("/v1/leases", {"name": "task.other"}),
        ("/v1/leases", {"name": "integrate.main@0"}),
        (f"/v1/leases/{lease.token}/renew", {}),
        (f"/v1/leases/{lease.token}/release", None),
    ):
        refused = client.post(path, json=body, headers=headers)
        assert "'tasks:rw'" in problem(refused, 403, "forbidden"), path
    assert bus.leases.get("task.fix") is not None
