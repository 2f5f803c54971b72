"""Publishing and reading over HTTP."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.export.archive_writer import Archiver, discard, segments_upto

from .conftest import problem

MESSAGE = {"type": "task.done", "from": "a", "payload": {"n": 1}}


def test_what_is_published_is_in_the_log_as_sent(client: httpx.Client, bus: Bus) -> None:
    everything = MESSAGE | {
        "to": "b",
        "id": "m-1",
        "conversation": "c-1",
        "priority": "interactive",
        "headers": {"k": [1]},
    }
    response = client.post("/v1/messages", json=everything)
    assert response.status_code == 201
    receipt = response.json()
    message = bus.get(receipt["seq"])
    assert message is not None
    assert (message.from_agent, message.to_agent, message.payload) == ("a", "b", {"n": 1})
    assert (message.id, message.conversation, message.priority) == ("m-1", "c-1", 0)
    assert message.headers == {"k": [1]}
    assert client.get(response.headers["Location"]).content == message.to_json()


def test_line_is_published_as_it_is(client: httpx.Client, bus: Bus) -> None:
    """A line has another word for its conversation; two words that differ are refused."""
    client.post("/v1/messages", json=MESSAGE | {"correlation_id": "c-1"})
    assert [message.conversation for message in bus.read()] == ["c-1"]
    both = MESSAGE | {"conversation": "c-1", "correlation_id": "c-2"}
    problem(client.post("/v1/messages", json=both), 422, "invalid-input")


def test_no_payload_and_a_payload_of_null_differ(client: httpx.Client, bus: Bus) -> None:
    client.post("/v1/messages", json={"type": "t", "from": "a"})
    client.post("/v1/messages", json={"type": "t", "from": "a", "payload": None})
    assert [message.has_payload for message in bus.read()] == [False, True]


def test_repeating_an_id_stores_once_and_says_so(client: httpx.Client, bus: Bus) -> None:
    first, again = (client.post("/v1/messages", json=MESSAGE | {"id": "x"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"duplicate": True}
    assert bus.log.newest_seq() == 1


def test_a_discarded_message_is_not_there_and_the_range_is_told(
    client: httpx.Client, bus: Bus
) -> None:
    bus.publish_many(Draft("note", n, from_agent="a", id=f"m-{n}") for n in range(1, 5))
    with Archiver(bus) as archiver:
        archiver.archive(3)
        discard(bus, segments_upto(bus, 3))
    for key in ("2", "m-2"):
        gone = client.get(f"/v1/messages/{key}")
        assert "archived and discarded, seq 1 to 3, at" in problem(gone, 404, "message-discarded")
        assert (gone.json()["first_seq"], gone.json()["last_seq"]) == (1, 3)
    assert [message["seq"] for message in client.get("/v1/messages").json()["messages"]] == [4, 5]


def test_same_id_with_other_content_is_a_conflict_that_names_it(client: httpx.Client) -> None:
    client.post("/v1/messages", json=MESSAGE | {"id": "x"})
    other = client.post("/v1/messages", json=MESSAGE | {"id": "x", "payload": 2})
    assert "taken by seq 1" in problem(other, 409, "id-conflict")
    assert other.json()["fields"] == ["payload"]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["all", "*"])
def test_word_for_everyone_is_no_recipient_at_any_door(
    client: httpx.Client, bus: Bus, word: str
) -> None:
    to = MESSAGE | {"to": word}
    queue = Queue.create(bus, "work", "work")
    bus.publish("work", from_agent="lead")
    (claim,) = queue.claim("w")
    newest = bus.log.newest_seq()
    for path, body in (
        ("messages", to),
        ("messages/batch", {"messages": [to]}),
        ("requests", to | {"type": "t.request"}),
        ("sessions/s/message", {"text": "hi", "to": word}),
        (f"claims/{claim.token}/complete", {"replies": [{"type": "t", "to": word}]}),
    ):
        refused = client.post(f"/v1/{path}", json=body)
        assert "name no recipient" in problem(refused, 409, "unknown-recipient"), path
    assert bus.log.newest_seq() == newest


def test_message_is_shown_by_its_seq_or_its_id(client: httpx.Client, bus: Bus) -> None:
    receipt = bus.publish("t", "by id", from_agent="a", id="99999")
    for key in (receipt.seq, "99999"):
        assert client.get(f"/v1/messages/{key}").json()["payload"] == "by id"
    problem(client.get("/v1/messages/\u0661"), 404, "not-found")  # a digit, of another script


def test_pages_follow_one_another_without_a_gap(client: httpx.Client, bus: Bus) -> None:
    for n in range(7):
        bus.publish("t.x", n, from_agent="a")
        bus.publish("t.y", n, from_agent="b")
    found, after, more = [], 0, True
    while more:
        page = client.get("/v1/messages", params={"after": after, "limit": 3, "type": "t.x"}).json()
        found += [message["payload"] for message in page["messages"]]
        after, more = page["after"], page["more"]
    assert found == list(range(7))
    assert after == 14


BAD = {
    "invalid JSON": (b'{"type": ', 400, "bad-request"),
    "invalid UTF-8": (b'{"type": "t", "from": "\xff"}', 400, "bad-request"),
    "a number that is none": (b'{"type": "t", "from": "a", "payload": NaN}', 400, "bad-request"),
    "no object": (b"[1]", 422, "invalid-input"),
    "an unknown field": (b'{"type": "t", "from": "a", "too": "b"}', 422, "invalid-input"),
    "no sender": (b'{"type": "t"}', 422, "invalid-input"),
    "a bad type": (b'{"type": "t..u", "from": "a"}', 422, "invalid-input"),
    "an unknown parent": (
        b'{"type": "t", "from": "a", "in_reply_to": "nobody"}',
        409,
        "unknown-parent",
    ),
}


@pytest.mark.parametrize(("body", "status", "kind"), BAD.values(), ids=BAD)
def test_bad_message_is_a_problem_and_stores_nothing(
    client: httpx.Client, bus: Bus, body: bytes, status: int, kind: str
) -> None:
    headers = {"Content-Type": "application/json"}
    problem(client.post("/v1/messages", content=body, headers=headers), status, kind)
    assert bus.log.newest_seq() == 0


@pytest.mark.slow
def test_million_mistakes_make_a_short_problem(client: httpx.Client, bus: Bus) -> None:
    """Each made an error of its own: 180 MB of them, for which all others had to wait."""
    unknown = b",".join(b'"k%d":1' % n for n in range(300_000))
    headers = {"Content-Type": "application/json"}
    for body in (b"{%b}" % unknown, b'{"messages":[{%b}]}' % unknown):
        response = client.post("/v1/messages/batch", content=body, headers=headers)
        assert "'k0'" in problem(response, 422, "invalid-input")
        assert len(response.content) < 1000
    response = client.post("/v1/messages/batch", json={"messages": [{}] * 10_000})
    assert "and 9980 more" in problem(response, 422, "invalid-input")
    assert len(response.json()["errors"]) == 20


def test_what_is_not_sent_as_json_is_refused(client: httpx.Client, bus: Bus) -> None:
    """A page of another site can send a form or text without being asked, but no JSON."""
    body = b'{"type": "t", "from": "a"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        response = client.post("/v1/messages", content=body, headers={"Content-Type": kind})
        detail = problem(response, 415, "unsupported-media-type")
        assert f"Content-Type: application/json, not '{kind}'" in detail
    pieces = client.post("/v1/messages", content=iter([body]))
    problem(pieces, 415, "unsupported-media-type")
    assert bus.log.newest_seq() == 0


def test_health_asks_the_store(client: httpx.Client, bus: Bus) -> None:
    bus.publish("t", from_agent="a")
    assert client.get("/healthz").json() == {"ok": True, "newest_seq": 1}


def test_batch_is_stored_whole_or_not_at_all(client: httpx.Client, bus: Bus) -> None:
    batch = {"messages": [MESSAGE | {"id": f"m-{n}"} for n in range(3)]}
    first, again = (client.post("/v1/messages/batch", json=batch) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert [receipt["seq"] for receipt in again.json()["receipts"]] == [1, 2, 3]
    batch["messages"] = [MESSAGE, MESSAGE | {"id": "m-1", "payload": "other"}]
    problem(client.post("/v1/messages/batch", json=batch), 409, "id-conflict")
    assert bus.log.newest_seq() == 3


def test_lists_leave_large_payloads_where_they_are(client: httpx.Client, bus: Bus) -> None:
    bus.publish("t", "needle " + "x" * 10_000, from_agent="a")
    (listed,) = client.get("/v1/messages").json()["messages"]
    (newest,) = client.get("/v1/newest").json()["messages"]
    (found,) = client.get("/v1/search", params={"words": "needle"}).json()["messages"]
    assert listed == newest == found["message"]
    assert "payload" not in listed
    assert listed["payload_ref"].startswith("sha256-")
    assert len(client.get("/v1/messages/1").json()["payload"]) == 10_007


def test_search_goes_on_where_its_page_ended(client: httpx.Client, bus: Bus) -> None:
    """Each match once, the best first, whatever is published meanwhile."""
    words = ["disk " * (1 + n % 5) + "full" for n in range(45)]
    bus.publish_many(
        Draft("t", text, from_agent="a" if n % 9 else "b") for n, text in enumerate(words)
    )
    whole = client.get("/v1/search", params={"words": "disk", "agent": "a", "limit": 100}).json()
    wanted = [each["message"]["seq"] for each in whole["messages"]]
    assert (len(wanted), whole["next_cursor"]) == (40, None)
    found, parameters = [], {"words": "disk", "agent": "a", "limit": 10}
    for page in range(4):
        answer = client.get("/v1/search", params=parameters).json()
        found += [each["message"]["seq"] for each in answer["messages"]]
        assert (answer["next_cursor"] is None) == (page == 3)
        parameters["cursor"] = answer["next_cursor"]
        bus.publish("t", "disk disk disk disk disk", from_agent="a")
    assert sorted(found) == sorted(wanted)
    for cursor in ("", "7", "7+", "-1+0", "7+1 ", "\u0667+1", "9" * 19 + "+0"):
        refused = client.get("/v1/search", params={"words": "disk", "cursor": cursor})
        assert "next_cursor" in problem(refused, 422, "invalid-input")
    beyond = client.get("/v1/search", params={"words": "disk", "cursor": "9+999999999"}).json()
    assert beyond == {"messages": [], "next_cursor": None}


def test_search_asks_for_words(client: httpx.Client) -> None:
    """Issue 32, 12: one name at each door, as the tools of agents have it."""
    for parameters, told in (({}, "words=disk"), ({"q": "needle"}, "no parameter 'q'")):
        refused = client.get("/v1/search", params=parameters)
        assert told in problem(refused, 422, "invalid-input")


def test_client_that_has_a_message_is_not_sent_it_again(client: httpx.Client, bus: Bus) -> None:
    bus.publish("t", from_agent="a")
    tag = client.get("/v1/messages/1").headers["ETag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        response = client.get("/v1/messages/1", headers={"If-None-Match": known})
        assert (response.status_code, response.content) == (304, b"")
    assert client.get("/v1/messages/1", headers={"If-None-Match": '"x"'}).status_code == 200


@pytest.mark.slow
def test_reading_after_the_end_is_a_conflict(client: httpx.Client, bus: Bus) -> None:
    """A client that has seen a later message has seen another log, and would miss this one's."""
    bus.publish("t", from_agent="a", correlation_id="c")
    for path in ("/v1/messages", "/v1/conversations/c/messages", "/v1/events"):
        response = client.get(path, params={"after": 2})
        assert "the newest is 1" in problem(response, 409, "after-the-end")
    assert client.get("/v1/messages", params={"after": 1}).json()["messages"] == []


@pytest.mark.slow
def test_slip_in_a_parameter_is_refused(client: httpx.Client) -> None:
    """It would read the whole log, or filter nothing."""
    refused = client.get("/v1/messages", params={"afetr": 5})
    assert "'afetr'" in problem(refused, 422, "invalid-input")
    problem(client.get("/v1/events", params={"typ": "t"}), 422, "invalid-input")
    twice = client.get("/v1/messages", params={"type": ["t", "u"]})
    assert "'type' is given more than once" in problem(twice, 422, "invalid-input")
    assert client.get("/v1/search", params={"words": ["disk", "full"]}).status_code == 200
    assert client.get("/v1/jobs", params={"state": ["dead", "failed"]}).status_code == 200


@pytest.mark.slow
def test_writers_that_wait_for_another_program_do_not_keep_readers_out(
    client: httpx.Client, bus: Bus
) -> None:
    """As many as there are threads are told after a while to come again."""
    with ThreadPoolExecutor(16) as threads, bus.transaction():
        posts = [threads.submit(client.post, "/v1/messages", json=MESSAGE) for _ in range(16)]
        responses = [each.result() for each in posts]
        assert client.get("/v1/messages").json()["messages"] == []
    for response in responses:
        problem(response, 503, "bus-busy")
        assert response.headers["Retry-After"] == "1"


def test_receipts_tell_who_acknowledged_a_message(client: httpx.Client, bus: Bus) -> None:
    """Issue 19, item 5: by seq or id; for a broadcast of each reader."""
    Inbox(bus, "ann").join()
    Inbox(bus, "team/bob").join()
    Queue.create(bus, "build")
    bus.publish_many([Draft(type, from_agent="lead", id=f"x/{type}") for type in ("note", "build")])
    Inbox(bus, "ann").ack(1)
    expected = {
        "receipts": [
            {"kind": "inbox", "name": "ann", "state": "acknowledged"},
            {"kind": "inbox", "name": "team/bob", "state": "unread"},
        ]
    }
    for key in ("1", "x%2Fnote"):
        assert client.get(f"/v1/receipts/{key}").json() == expected
    work = {"receipts": [{"kind": "queue", "name": "build", "state": "queued"}]}
    assert client.get("/v1/receipts/2").json() == work
    problem(client.get("/v1/receipts/9"), 404, "not-found")
