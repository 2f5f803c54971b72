"""The header `Idempotency-Key`: a request under it publishes once, whatever is repeated."""

from typing import Any

import httpx
import pytest

from ackbus import Bus, Queue
from ackbus.server.access.tokens import Tokens

from .conftest import Serve, problem

NOTE = {"type": "note", "from": "a", "to": "b", "payload": 1}


def under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def publications(bus: Bus) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every operation that publishes, with a body that publishes one message."""
    bus.heartbeats.beat("a")
    queue = Queue.create(bus, "x", "x")
    bus.publish("x", 1, from_agent="asker")
    bus.publish("x", 2, from_agent="asker")
    first, second = (queue.claim("a", lease_s=99)[0].token for _ in range(2))
    mail = bus.publish("note", 0, from_agent="c", to_agent="a")
    replies = {"replies": [{"type": "y", "payload": 1}]}
    return {
        "messages": ("/v1/messages", NOTE),
        "batch": ("/v1/messages/batch", {"messages": [NOTE]}),
        "requests": ("/v1/requests", NOTE | {"type": "note.request"}),
        "inbox": ("/v1/inboxes/a/complete", {"seq": mail.seq} | replies),
        "claim": (f"/v1/claims/{first}/complete", replies),
        "failure": (f"/v1/claims/{second}/fail", {"error": "e", "retry": False} | replies),
    }


OPERATIONS = ["messages", "batch", "requests", "inbox", "claim", "failure"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_key_makes_the_id_where_something_is_published(
    client: httpx.Client, bus: Bus, operation: str
) -> None:
    """Issue 32, 6; another id in the body is refused, before anything is stored."""
    path, body = publications(bus)[operation]
    before = bus.log.newest_seq()
    within = body.get("messages") or body.get("replies") or [body]
    within[0] = dict(within[0])
    named = body | {"id": "m-9"} if within == [body] else body
    within[0]["id"] = "m-9"
    refused = client.post(path, json=named, headers=under("k"))
    assert "give one of both" in problem(refused, 422, "invalid-input")
    assert bus.log.newest_seq() == before
    del within[0]["id"]
    assert client.post(path, json=body, headers=under("k")).is_success
    stored = bus.get(before + 1)
    assert stored is not None
    assert stored.id.startswith("key-")
    client.post(path, json=body, headers=under("k"))
    assert bus.log.newest_seq() == before + 1


def test_the_same_key_with_other_content_is_a_conflict(client: httpx.Client, bus: Bus) -> None:
    client.post("/v1/messages", json=NOTE, headers=under("k"))
    other = client.post("/v1/messages", json=NOTE | {"payload": 2}, headers=under("k"))
    problem(other, 409, "id-conflict")
    quoted = client.post("/v1/messages", json=NOTE, headers=under('"k"'))
    assert quoted.json()["duplicate"]
    same = client.post("/v1/messages", json=NOTE | {"id": "k"}, headers=under("k"))
    assert same.json()["duplicate"]


def test_keys_of_other_agents_tokens_and_places_are_other_keys(bus: Bus, serve: Serve) -> None:
    client = serve()
    for name in ("one", "two"):
        secret = Tokens.of(bus).create(name, ["messages:rw"])
        for sender in ("a", "b"):
            headers = under("k") | {"Authorization": f"Bearer {secret}"}
            sent = client.post("/v1/messages", json=NOTE | {"from": sender}, headers=headers)
            assert sent.status_code == 201
    twice = {"messages": [NOTE | {"from": "c"}, NOTE | {"from": "c"}]}
    receipts = client.post("/v1/messages/batch", json=twice, headers=headers).json()["receipts"]
    assert len({each["id"] for each in receipts}) == 2
    assert bus.log.newest_seq() == 6


def test_list_of_recipients_under_a_key_is_sent_once(client: httpx.Client, bus: Bus) -> None:
    several = NOTE | {"to": ["b", "c", "d"]}
    first, again = (client.post("/v1/messages", json=several, headers=under("k")) for _ in "ab")
    assert (first.status_code, again.status_code) == (201, 200)
    assert bus.log.newest_seq() == 3
    assert len({each["id"] for each in again.json()["receipts"]}) == 3


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, '""', "a\tb"])
def test_what_is_no_key_is_refused(client: httpx.Client, bus: Bus, key: str) -> None:
    problem(client.post("/v1/messages", json=NOTE, headers=under(key)), 422, "invalid-input")
    assert bus.log.newest_seq() == 0


def test_two_keys_are_refused(client: httpx.Client) -> None:
    both = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    problem(client.post("/v1/messages", json=NOTE, headers=both), 422, "invalid-input")


@pytest.mark.slow
def test_a_key_is_refused_by_every_other_operation(client: httpx.Client) -> None:
    """OpenAPI says where it is taken; it is nowhere else, whatever the method."""
    paths = client.get("/v1/openapi.json").json()["paths"]
    takes = set()
    for path, methods in paths.items():
        for method, operation in methods.items():
            names = [each["name"] for each in operation.get("parameters", ())]
            if "Idempotency-Key" in names:
                takes.add(path)
                continue
            if not path.startswith("/v1/"):
                continue
            at = path
            for name in names:
                at = at.replace("{" + name + "}", "1").replace("{" + name + ":path}", "1")
            refused = client.request(method, at, headers=under("k"))
            if method == "head":
                assert refused.status_code == 422
                continue
            why = problem(refused, 422, "invalid-input")
            assert why.startswith("Idempotency-Key is for operations"), (method, path)
    ends = {path.rpartition("/")[2] for path in takes}
    assert len(takes) == len(OPERATIONS)
    assert ends == {"messages", "batch", "requests", "complete", "fail"}


def test_a_second_answer_is_warned_of(client: httpx.Client, bus: Bus) -> None:
    """Issue 32, 6: other doors than the tools of agents warn."""
    for name in "ab":
        bus.heartbeats.beat(name)
    bus.publish("x.request", 1, from_agent="a", to_agent="b", id="r")
    answer = {"type": "x.done", "from": "b", "to": "a", "in_reply_to": "r"}
    first = client.post("/v1/messages", json=answer | {"id": "m-2"}).json()
    assert first["warning"] is None
    assert client.post("/v1/messages", json=answer | {"id": "m-2"}).json()["warning"] is None
    second = client.post("/v1/messages", json=answer).json()
    assert second["warning"] == "message 1 has an answer of 'b' already, 2"
