"""Inboxes over HTTP: polling, acknowledging, completing, failing."""

import threading
import time

import httpx
import pytest

from ackbus import Bus, Inbox, Queue

from .conftest import problem


@pytest.fixture(scope="module", autouse=True)
def known(one_bus: Bus) -> None:
    """The bus has seen the agents that messages are sent to."""
    for agent in ("w1", "w2", "w3", "w4", "w5", "w6", "w7", "team/w"):
        one_bus.heartbeats.beat(agent)
    one_bus.heartbeats.beat("lead")
    one_bus.publish("hello", from_agent="lead", to_agent="lead")


def test_polling_changes_nothing_and_acknowledging_does(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    seqs = [one_bus.publish("t", n, from_agent="lead", to_agent="w1").seq for n in range(2)]
    for _ in range(2):
        mail = one_client.get("/v1/inboxes/w1").json()
        assert [message["payload"] for message in mail["messages"]] == [0, 1]
        assert mail["cursor"] == 0
    for seq in (seqs[1], seqs[0]):  # a cursor never moves back
        done = one_client.post("/v1/inboxes/w1/ack", json={"seq": seq})
        assert done.json() == {"agent": "w1", "cursor": seqs[1]}
    assert one_client.get("/v1/inboxes/w1").json()["messages"] == []


def test_acknowledging_beyond_the_end_is_a_conflict(one_client: httpx.Client) -> None:
    problem(one_client.post("/v1/inboxes/w1/ack", json={"seq": 10**9}), 409, "ack-past-end")


def test_completing_publishes_the_replies_once(one_client: httpx.Client, one_bus: Bus) -> None:
    asked = one_bus.publish(
        "do", from_agent="lead", to_agent="w2", headers={"context": {"user": "u"}}
    )
    body = {"seq": asked.seq, "replies": [{"type": "done", "payload": {"ok": True}}]}
    first, again = (one_client.post("/v1/inboxes/w2/complete", json=body).json() for _ in range(2))
    assert (first["first"], again["first"], again["receipts"]) == (True, False, [])
    reply = one_bus.get(first["receipts"][0]["seq"])
    assert reply is not None
    assert (reply.from_agent, reply.to_agent, reply.in_reply_to) == ("w2", "lead", asked.id)
    assert reply.headers["context"] == {"user": "u"}
    assert first["cursor"] == asked.seq


def test_what_fails_too_often_is_parked_and_can_be_requeued(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    seq = one_bus.publish("t", from_agent="lead", to_agent="w3").seq
    failed = {"seq": seq, "error": "no disk"}
    came = [one_client.post("/v1/inboxes/w3/fail", json=failed).json() for _ in range(5)]
    assert [each["parked"] for each in came] == [False] * 4 + [True]
    (parked,) = one_client.get("/v1/parked", params={"agent": "w3"}).json()["parked"]
    assert (parked["seq"], parked["attempts"], parked["error"]) == (seq, 5, "no disk")
    every = one_client.get("/v1/parked").json()["parked"]
    assert one_client.get("/v1/status").json()["parked"] == len(every)
    inboxes = one_client.get("/v1/inboxes").json()["inboxes"]
    assert [each["parked"] for each in inboxes if each["agent"] == "w3"] == [1]
    chosen = {"seqs": [seq]}
    assert one_client.post("/v1/inboxes/w3/parked/requeue", json=chosen).status_code == 204
    assert [m["seq"] for m in one_client.get("/v1/inboxes/w3").json()["messages"]] == [seq]
    refused = one_client.post("/v1/inboxes/w3/parked/drop", json=chosen)
    assert "not parked" in problem(refused, 404, "not-found")


def test_what_fails_out_of_turn_loses_nothing(one_client: httpx.Client, one_bus: Bus) -> None:
    """To park it would acknowledge the mail before it."""
    first, second = (one_bus.publish("t", n, from_agent="lead", to_agent="w7").seq for n in (1, 2))
    failed = {"seq": second, "error": "x"}

    def fail() -> object:
        came = one_client.post("/v1/inboxes/w7/fail", json=failed).json()
        return came["attempts"], came["parked"]

    assert [fail() for _ in range(6)] == [(n, False) for n in range(1, 7)]
    mail = one_client.get("/v1/inboxes/w7").json()["messages"]
    assert [message["seq"] for message in mail] == [first, second]
    assert one_client.post("/v1/inboxes/w7/ack", json={"seq": first}).status_code == 200
    assert fail() == (7, True)


def test_seq_is_a_number(one_client: httpx.Client) -> None:
    refused = one_client.post("/v1/inboxes/w7/ack", json={"seq": "1"})
    assert "body.seq" in problem(refused, 422, "invalid-input")


def test_nothing_fails_that_is_for_another(one_client: httpx.Client, one_bus: Bus) -> None:
    seq = one_bus.publish("t", from_agent="lead", to_agent="lead").seq
    for act, more in (("fail", {"error": "x"}), ("complete", {})):
        refused = one_client.post(f"/v1/inboxes/w7/{act}", json={"seq": seq} | more)
        assert "is for 'lead'" in problem(refused, 422, "invalid-input")


def test_poll_that_waits_returns_as_soon_as_there_is_mail(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    def publish() -> None:
        time.sleep(0.2)
        one_bus.publish("t", "late", from_agent="lead", to_agent="w4")

    Inbox(one_bus, "w4").ack(one_bus.log.newest_seq())
    publisher = threading.Thread(target=publish)
    publisher.start()
    mail = one_client.get("/v1/inboxes/w4", params={"wait_s": 20}).json()
    publisher.join()
    assert [message["payload"] for message in mail["messages"]] == ["late"]


@pytest.mark.slow
def test_those_who_wait_use_up_no_threads(one_client: httpx.Client, one_bus: Bus) -> None:
    """More of them than there are threads, and others are answered meanwhile."""
    Inbox(one_bus, "w5").ack(one_bus.log.newest_seq())
    found: list[int] = []

    def wait() -> None:
        with httpx.Client(base_url=one_client.base_url, timeout=60) as client:
            mail = client.get("/v1/inboxes/w5", params={"wait_s": 25}).json()
            found.extend(message["seq"] for message in mail["messages"])

    waiters = [threading.Thread(target=wait) for _ in range(40)]
    for each in waiters:
        each.start()
    for _ in range(10):
        assert one_client.get("/v1/messages", params={"limit": 1}).status_code == 200
    receipt = one_client.post("/v1/messages", json={"type": "t", "from": "a", "to": "w5"}).json()
    for each in waiters:
        each.join()
    assert found == [receipt["seq"]] * 40


def test_list_says_how_far_each_agent_is_behind(one_client: httpx.Client, one_bus: Bus) -> None:
    Inbox(one_bus, "w6").ack(one_bus.log.newest_seq())
    one_bus.publish("t", from_agent="lead", to_agent="w6")
    inboxes = {each["agent"]: each for each in one_client.get("/v1/inboxes").json()["inboxes"]}
    assert (inboxes["w6"]["unread"], inboxes["w6"]["parked"]) == (1, 0)


def test_agent_may_have_a_slash_in_its_name(one_client: httpx.Client, one_bus: Bus) -> None:
    seq = one_bus.publish("t", from_agent="lead", to_agent="team/w").seq
    assert one_client.post("/v1/inboxes/team%2Fw/ack", json={"seq": seq}).json() == {
        "agent": "team/w",
        "cursor": seq,
    }


@pytest.mark.slow
def test_agent_asks_for_work_and_says_what_it_wants(client: httpx.Client, bus: Bus) -> None:
    """Work and what is not wanted are neither shown nor counted; `with_work` shows work."""
    Queue.create(bus, "job")
    seqs = [bus.publish(type, from_agent="lead").seq for type in ("job", "note", "review.ok")]

    def shown(**query: object) -> list[int]:
        mail = client.get("/v1/inboxes/reader", params=query).json()["messages"]  # type: ignore[arg-type]
        return [message["seq"] for message in mail]

    assert shown() == seqs[1:]
    assert shown(with_work=True) == seqs
    wanted = client.post("/v1/inboxes/reader/want", json={"types": ["review.>"]})
    assert wanted.json() == {"agent": "reader", "types": ["review.>"]}
    assert shown() == seqs[2:]
    (box,) = (
        each for each in client.get("/v1/inboxes").json()["inboxes"] if each["agent"] == "reader"
    )
    assert box["unread"] == 1
    assert client.post("/v1/inboxes/reader/want", json={"types": None}).json()["types"] is None
    assert shown() == seqs[1:]
    problem(client.post("/v1/inboxes/reader/want", json={"types": ["a..b"]}), 422, "invalid-input")
