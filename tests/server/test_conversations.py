"""Requests, answers, traces and sessions over HTTP."""

import json
import threading
import time
from typing import Any

import httpx
from websockets.sync.client import connect

from ackbus import Bus

from .conftest import problem

ASKED = {"type": "review.request", "from": "lead", "payload": "Review the parser"}


def asked(client: httpx.Client, **fields: object) -> dict[str, Any]:
    """Publishes a request, and returns its record."""
    response = client.post("/v1/requests", json=ASKED | fields)
    assert response.status_code == 201
    record: dict[str, Any] = response.json()
    return record


def test_answer_is_pending_until_it_comes(one_client: httpx.Client, one_bus: Bus) -> None:
    request = asked(one_client)
    assert request["reply_types"] == [
        "review.done",
        "review.failed",
        "review.request.timed_out",
    ]
    url = f"/v1/requests/{request['id']}/answer"
    assert one_client.get(url).json()["state"] == "pending"
    one_bus.publish("review.done", {"ok": 1}, from_agent="w", in_reply_to=request["id"])
    answer = one_client.get(url).json()
    assert (answer["state"], answer["reply"]["payload"]) == ("success", {"ok": 1})
    checked = one_client.get(f"/v1/conversations/{request['conversation']}/answer").json()
    assert checked == answer


def test_client_that_waits_for_an_answer_gets_it_at_once(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    request = asked(one_client)

    def answer() -> None:
        time.sleep(0.2)
        one_bus.publish("chatter", from_agent="w")
        one_bus.publish("review.failed", "no", from_agent="w", in_reply_to=request["id"])

    worker = threading.Thread(target=answer)
    worker.start()
    found = one_client.get(f"/v1/requests/{request['id']}/answer", params={"wait_s": 20}).json()
    worker.join()
    assert (found["state"], found["reply"]["payload"]) == ("failure", "no")


def test_waiting_in_vain_ends_as_pending(one_client: httpx.Client) -> None:
    request = asked(one_client)
    found = one_client.get(f"/v1/requests/{request['id']}/answer", params={"wait_s": 0.1})
    assert found.json()["state"] == "pending"


def test_request_that_nothing_answers_is_refused(one_client: httpx.Client, one_bus: Bus) -> None:
    newest = one_bus.log.newest_seq()
    refused = one_client.post("/v1/requests", json=ASKED | {"type": "note"})
    assert "nothing answers" in problem(refused, 422, "invalid-input")
    assert one_bus.log.newest_seq() == newest
    problem(one_client.get("/v1/requests/nobody/answer"), 404, "not-found")


def test_repeated_request_asks_no_second_time(one_client: httpx.Client) -> None:
    """Nor does it say once more that nobody serves it: the first time has told it."""
    first, again = (one_client.post("/v1/requests", json=ASKED | {"id": "r-1"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"duplicate": True, "warning": None}
    assert "no live worker serves 'review.request'" in first.json()["warning"]


def test_trace_has_the_whole_chain(one_client: httpx.Client, one_bus: Bus) -> None:
    """U-76: from any id of it."""
    one_client.put("/v1/queues/traced", json={"type": "traced.request"})
    first = one_bus.publish("traced.request", from_agent="lead")
    (claim,) = one_client.post("/v1/queues/traced/claims", json={"worker": "w"}).json()["claims"]
    body = {"replies": [{"type": "traced.done"}]}
    one_client.post(f"/v1/claims/{claim['token']}/complete", json=body)
    for key in (first.id, f"claim:{claim['token']}", f"traced:{first.seq}"):
        trace = one_client.get(f"/v1/trace/{key}").json()
        assert [message["type"] for message in trace["messages"]] == [
            "traced.request",
            "traced.done",
        ]
        (job,) = trace["messages"][0]["jobs"]
        assert [(each["token"], each["worker"]) for each in job["claims"]] == [
            (claim["token"], "w")
        ]
    problem(one_client.get("/v1/trace/nothing"), 404, "not-found")


def test_long_trace_comes_in_pages(one_client: httpx.Client, one_bus: Bus) -> None:
    ids = [f"long-{n}" for n in range(5)]
    for id in ids:
        one_bus.publish("t", from_agent="a", id=id, correlation_id="long")
    found: list[str] = []
    more = True
    while more:
        params = {"skip": len(found), "limit": 2}
        page = one_client.get("/v1/trace/long", params=params).json()
        assert len(page["messages"]) <= 2
        found += [message["id"] for message in page["messages"]]
        more = page["more"]
    assert found == ids


def test_what_is_said_in_a_session_is_followed_in_it(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """U-20, U-21, U-24: by SSE and by WebSocket the same."""
    said = one_client.post("/v1/sessions/s-1/message", json={"text": "hello", "intent": "greet"})
    assert said.status_code == 201
    one_bus.publish("elsewhere", from_agent="w")
    one_bus.publish("assistant_message", "hi", from_agent="w", correlation_id="s-1")
    message = one_bus.get(said.json()["seq"])
    assert message is not None
    assert (message.type, message.from_agent, message.conversation) == ("message", "client", "s-1")
    assert message.payload == {"text": "hello", "intent": "greet"}
    assert message.headers["turn_id"] == said.json()["turn_id"]
    found = []
    with one_client.stream("GET", "/v1/sessions/s-1/events") as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == 2:
                break
    url = str(one_client.base_url).replace("http", "ws") + "/v1/sessions/s-1/ws"
    with connect(url) as socket:
        assert [json.loads(socket.recv(10)) for _ in range(2)] == found
    page = one_client.get("/v1/conversations/s-1/messages").json()
    assert page["messages"] == found


def test_what_is_said_again_in_a_session_is_stored_once(one_client: httpx.Client) -> None:
    """And the status tells, as that of any message does."""
    words = {"text": "hello", "id": "said-1"}
    first, again = (one_client.post("/v1/sessions/s-2/message", json=words) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"duplicate": True, "warning": None}
