"""What each operation asks of a token: its scope, and as whom it acts."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ackbus import Bus, Queue
from ackbus.server import Scope, Tokens

from .conftest import problem, serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bus, httpx.Client]]:
    """A bus with a token, and a client of its server that shows none."""
    directory = tmp_path_factory.mktemp("project") / ".worker-state"
    with Bus.init(directory) as bus:
        Tokens(bus.database).create("root", [Scope.ADMIN])
        with serving(Path(directory)) as url, httpx.Client(base_url=url, timeout=20) as client:
            yield bus, client


def bearer(bus: Bus, name: str, *scopes: Scope, agent: str | None = None) -> dict[str, str]:
    token = Tokens(bus.database).create(name, scopes, agent=agent)
    return {"Authorization": f"Bearer {token}"}


def test_every_operation_but_health_needs_a_token(guarded: tuple[Bus, httpx.Client]) -> None:
    """And one of no scope that it needs is refused."""
    _, client = guarded
    paths = client.get("/v1/openapi.json").json()["paths"]
    asked = {"agent": "a", "kind": "inbox", "ref": "sha256-" + "0" * 64, "seq": "1", "token": "1"}
    for path, operations in paths.items():
        for part in ("name", "queue", "key", "conversation", "id", "session"):
            asked.setdefault(part, "x")
        for method in set(operations) - {"head"}:
            if path == "/healthz":
                continue
            response = client.request(method, path.format_map(asked))
            assert response.status_code == 401, (method, path, response.text)


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


def test_trace_needs_both_scopes(guarded: tuple[Bus, httpx.Client]) -> None:
    bus, client = guarded
    headers = bearer(bus, "half", Scope.MESSAGES_RO)
    assert "work:ro" in problem(client.get("/v1/trace/1", headers=headers), 403, "forbidden")
