"""The scope that each operation needs of a token, and the agent that it acts as."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ackbus import Bus, Queue
from ackbus.schema.message.limits import MAX_SEQ
from ackbus.server.access.principals import Principal, Scope
from ackbus.server.access.tokens import Tokens

from .conftest import problem, serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bus, httpx.Client]]:
    """A bus with a token, and a client of its server that shows none."""
    directory = tmp_path_factory.mktemp("project") / ".worker-state"
    with Bus.init(directory) as bus:
        Tokens.of(bus).create("root", [Scope.ADMIN])
        with serving(Path(directory)) as url, httpx.Client(base_url=url, timeout=60) as client:
            yield bus, client


def bearer(bus: Bus, name: str, *scopes: Scope, agent: str | None = None) -> dict[str, str]:
    token = Tokens.of(bus).create(name, scopes, agent=agent)
    return {"Authorization": f"Bearer {token}"}


def operations(client: httpx.Client) -> Iterator[tuple[str, str, list[str]]]:
    """Every operation: its method, a path that fits, and the scopes that the document names."""
    values = {"agent": "a", "kind": "inbox", "ref": "sha256-" + "0" * 64, "seq": "1", "token": "1"}
    values |= dict.fromkeys(("name", "queue", "key", "conversation", "id", "session"), "x")
    for path, found in client.get("/v1/openapi.json").json()["paths"].items():
        for method, operation in found.items():
            needed = [scope for each in operation.get("security", []) for scope in each["token"]]
            # A stream has no end.
            after = f"?after={MAX_SEQ}" if path.endswith("/events") else ""
            yield method, path.format_map(values) + after, needed


def test_every_operation_but_health_needs_a_token(guarded: tuple[Bus, httpx.Client]) -> None:
    _, client = guarded
    for method, path, needed in operations(client):
        response = client.request(method, path)
        assert response.status_code == (401 if needed else 200), (method, path)
        assert bool(needed) == (path != "/healthz")


@pytest.mark.parametrize("scope", Scope)
def test_every_operation_lets_in_those_with_its_scopes(
    guarded: tuple[Bus, httpx.Client], scope: Scope
) -> None:
    bus, client = guarded
    headers = bearer(bus, f"only.{scope.replace(':', '.')}", scope)
    only = Principal("x", frozenset([scope]))
    for method, path, needed in operations(client):
        may = all(only.may(Scope(each)) for each in needed)
        response = client.request(method, path, headers=headers)
        assert (response.status_code != 403) == may, (method, path, response.text)


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
        ("/v1/leases/release", {"name": "n", "holder": "b", "token": 1}),
        ("/v1/reservations", {"paths": ["x"], "agent": "b"}),
        ("/v1/reservations/renew", {"agent": "b", "tokens": [1]}),
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
    post("/v1/leases/renew", name="bound", token=lease["token"])
    post("/v1/leases/release", name="bound", token=lease["token"])
    (held,) = post("/v1/reservations", paths=["bound"])["reservations"]
    assert held["agent"] == "me"
    post("/v1/reservations/renew", tokens=[held["token"]])
    post("/v1/reservations/release", tokens=[held["token"]])


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


@pytest.mark.requirement("D-59", "D-120")
@pytest.mark.parametrize("type", ["plugin.echo.poll", "plugin.event", "schedule.echo.default"])
def test_publishing_what_runs_plugins_needs_their_scope(
    guarded: tuple[Bus, httpx.Client], type: str
) -> None:
    bus, client = guarded
    both = (Scope.MESSAGES_RW, Scope.WORK_RW)
    headers = bearer(bus, f"mail.{type}", *both, agent="a")
    Queue.create(bus, f"for.{type}", f"for.{type}")
    asked = bus.publish("note", from_agent="b")
    bus.publish(f"for.{type}", from_agent="b")
    claim = Queue.open(bus, f"for.{type}").claim("a", lease_s=600)[0]
    newest, reply = bus.log.newest_seq(), {"replies": [{"type": type, "to": "automation"}]}
    for path, body in (
        ("/v1/messages", {"type": type, "to": "automation"}),
        ("/v1/messages/batch", {"messages": [{"type": "note"}, {"type": type}]}),
        ("/v1/requests", {"type": f"{type}.request"}),
        ("/v1/inboxes/a/complete", {"seq": asked.seq, **reply}),
        (f"/v1/claims/{claim.token}/complete", reply),
        (f"/v1/claims/{claim.token}/fail", {"error": "no", **reply}),
    ):
        refused = client.post(path, json=body, headers=headers)
        assert "'plugin:rw'" in problem(refused, 403, "forbidden"), path
    assert bus.log.newest_seq() == newest
    may = bearer(bus, f"run.{type}", *both, Scope.PLUGIN_RW, agent="a")
    done = client.post("/v1/messages", json={"type": type}, headers=may)
    assert done.status_code == 201
