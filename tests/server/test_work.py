"""Queues, jobs, claims, dead letters and limits over HTTP."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbus import Bus, Draft, Queue, Receipt
from ackbus.schema.message.names import new_id
from ackbus.server.access.access import BusAccess
from ackbus.server.running import create_app
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.json_records import result_from_store, result_to_store

from ..conftest import wait_until
from ..sizes import size
from .conftest import problem, scrape, serving


def made(client: httpx.Client, name: str, **policy: object) -> str:
    """Makes a queue, and returns its name."""
    body = {"type": f"{name}.request", "policy": policy}
    assert client.put(f"/v1/queues/{name}", json=body).status_code == 201
    return name


def claimed(client: httpx.Client, queue: str, wait_s: float = 0) -> list[dict[str, object]]:
    """Claims work."""
    url = f"/v1/queues/{queue}/claims"
    response = client.post(url, json={"worker": "w"}, params={"wait_s": wait_s})
    assert response.status_code == 200, response.text
    return list(response.json()["claims"])


@pytest.mark.slow
def test_claim_is_completed_with_its_reply(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q1")
    asked = one_bus.publish("q1.request", {"n": 1}, from_agent="lead")
    (claim,) = claimed(one_client, queue)
    assert claim["message"]["payload"] == {"n": 1}  # type: ignore[index]
    assert claimed(one_client, queue) == []
    body = {"result": {"ok": 1}, "replies": [{"type": "q1.done", "payload": "yes"}]}
    ended = one_client.post(f"/v1/claims/{claim['token']}/complete", json=body)
    reply = one_bus.get(ended.json()["receipts"][0]["seq"])
    assert reply is not None
    assert (reply.from_agent, reply.to_agent, reply.in_reply_to) == ("w", "lead", asked.id)
    job = one_client.get(f"/v1/queues/{queue}/jobs/{asked.seq}").json()
    assert (job["state"], job["attempts"][0]["result"]) == ("succeeded", {"ok": 1})
    assert job["message"]["id"] == asked.id
    again = one_client.post(f"/v1/claims/{claim['token']}/complete", json=body)
    problem(again, 409, "claim-lost")
    assert again.json()["ended_as"] == "completed"  # so it was done, if no answer came


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
    # Text that could be taken for another value.
    | st.sampled_from(["null", "0", "1.10", "-0.0", '"a"', '"\\"a\\""', "[]", "{}", "1e400", " 1"])
    | st.integers().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=size(sample=60, whole=2000), deadline=None)
@given(result=JSON)
def test_result_comes_back_as_it_went_in(result: object) -> None:
    """Also null, numbers that text could be, and text that numbers could be."""
    kept = Outcome(result=result_to_store(result)).row()[3]
    assert isinstance(kept, str)
    found = result_from_store(kept)
    assert (orjson.dumps(found), type(found)) == (orjson.dumps(result), type(result))


@pytest.mark.parametrize("result", [None, 2**63, 0.1, "12", '{"a":1}', {"b": 1, "a": [None]}, ""])
def test_result_comes_back_at_each_door(
    one_client: httpx.Client, one_bus: Bus, result: object
) -> None:
    queue = made(one_client, new_id())
    asked = one_bus.publish(f"{queue}.request", from_agent="lead")
    (claim,) = claimed(one_client, queue)
    url = f"/v1/claims/{claim['token']}"
    assert one_client.post(f"{url}/complete", json={"result": result}).status_code == 200
    assert one_client.get(url).json()["result"] == result
    job = one_client.get(f"/v1/queues/{queue}/jobs/{asked.seq}").json()
    assert job["attempts"][0]["result"] == result
    trace = one_client.get(f"/v1/trace/{asked.seq}").json()
    assert trace["messages"][0]["jobs"][0]["claims"][0]["result"] == result


def test_result_that_was_not_given_is_absent(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q14")
    one_bus.publish("q14.request", from_agent="lead")
    (claim,) = claimed(one_client, queue)
    url = f"/v1/claims/{claim['token']}"
    assert one_client.post(f"{url}/complete", json={}).status_code == 200
    assert "result" not in one_client.get(url).json()


def test_long_result_comes_back_cut_as_text(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q15")
    for _ in range(2):
        one_bus.publish("q15.request", from_agent="lead")
    for given_now, kept in (("1" * 70_000, "1" * 65_536), (["a" * 70_000], '["' + "a" * 65_534)):
        (claim,) = claimed(one_client, queue)
        url = f"/v1/claims/{claim['token']}"
        assert one_client.post(f"{url}/complete", json={"result": given_now}).status_code == 200
        assert one_client.get(url).json()["result"] == kept


def test_late_holder_changes_nothing_and_learns_it(one_client: httpx.Client, one_bus: Bus) -> None:
    """Fencing: the lease ran out, and another worker has the job."""
    queue = made(one_client, "q2")
    one_bus.publish("q2.request", from_agent="lead")
    (late,) = Queue.open(one_bus, queue).claim("slow", lease_s=0.001)
    (claim,) = claimed(one_client, queue, wait_s=20)
    newest = one_bus.log.newest_seq()
    reply = {"replies": [{"type": "q2.done"}]}
    for act, body in (
        ("complete", reply),
        ("renew", {}),
        ("release", {}),
        ("fail", {"error": "x"}),
    ):
        response = one_client.post(f"/v1/claims/{late.token}/{act}", json=body)
        problem(response, 409, "claim-lost")
    assert one_bus.log.newest_seq() == newest
    shown = one_client.get(f"/v1/claims/{claim['token']}").json()
    assert (shown["state"], shown["worker"]) == ("live_active", claim["worker"])
    renewed = one_client.post(f"/v1/claims/{claim['token']}/renew", json={"lease_s": 600})
    assert renewed.json()["until"] > claim["until"]


def test_job_handed_back_is_claimed_again_as_the_same_attempt(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    queue = made(one_client, "q3")
    one_bus.publish("q3.request", from_agent="lead")
    (first,) = claimed(one_client, queue)
    assert one_client.post(f"/v1/claims/{first['token']}/release", json={}).status_code == 204
    (again,) = claimed(one_client, queue)
    assert again["attempt"] == 1
    assert again["token"] > first["token"]  # type: ignore[operator]


def test_dead_letter_is_listed_shown_and_requeued(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q4", max_attempts=1)
    seq = one_bus.publish("q4.request", from_agent="lead").seq
    (claim,) = claimed(one_client, queue)
    one_client.post(f"/v1/claims/{claim['token']}/fail", json={"error": "no disk"})
    (dead,) = one_client.get("/v1/dead-letters", params={"queue": queue}).json()["jobs"]
    assert (dead["seq"], dead["error"], dead["type"]) == (seq, "no disk", "q4.request")
    shown = one_client.get(f"/v1/dead-letters/{queue}/{seq}").json()
    assert [attempt["error"] for attempt in shown["attempts"]] == ["no disk"]
    none = one_client.post(f"/v1/dead-letters/{queue}/requeue", json={"seqs": [seq, seq + 1]})
    problem(none, 404, "job-not-found")
    assert one_client.get("/v1/dead-letters", params={"queue": queue}).json()["jobs"]
    done = one_client.post(f"/v1/dead-letters/{queue}/requeue", json={"seqs": [seq]}).json()
    assert [job["state"] for job in done["jobs"]] == ["queued"]
    problem(one_client.get(f"/v1/dead-letters/{queue}/{seq}"), 404, "not-found")
    again = one_client.post(f"/v1/dead-letters/{queue}/requeue", json={"seqs": [seq]})
    problem(again, 409, "wrong-job-state")


def test_jobs_and_dead_letters_come_in_pages(one_client: httpx.Client, one_bus: Bus) -> None:
    """More than a page can have is there to be had, each once."""
    name = made(one_client, "qp", max_attempts=1)
    queue = Queue.open(one_bus, name)
    for _ in range(5):
        one_bus.publish("qp.request", from_agent="lead")
    for claim in queue.claim("w", limit=3):
        queue.fail(claim, "no disk")

    def walk(path: str, by: str, **parameters: str) -> list[int]:
        found: list[int] = []
        while True:
            asked = {"queue": name, "limit": 2} | parameters | ({by: found[-1]} if found else {})
            page = one_client.get(path, params=asked).json()["jobs"]
            found += [job["seq"] for job in page]
            if len(page) < 2:
                return found

    every = walk("/v1/jobs", "before")
    assert every == sorted(every, reverse=True)
    assert len(every) == 5
    assert walk("/v1/dead-letters", "after") == walk("/v1/jobs", "before", state="dead")[::-1]
    waiting = {"queue": name, "state": "queued", "before": every[0]}
    jobs = one_client.get("/v1/jobs", params=waiting).json()["jobs"]
    assert [job["seq"] for job in jobs] == every[1:2]
    for path, by in (("/v1/jobs", "before"), ("/v1/dead-letters", "after")):
        problem(one_client.get(path, params={by: 5}), 422, "invalid-input")


def test_worker_that_waits_gets_what_comes(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q5", backoff_s=0)
    one_bus.publish("q5.request", from_agent="lead")
    (claim,) = claimed(one_client, queue, wait_s=20)
    one_client.post(f"/v1/claims/{claim['token']}/fail", json={"error": "x", "retry_after_s": 0.5})
    (again,) = claimed(one_client, queue, wait_s=20)  # no message tells of that
    assert again["attempt"] == 2


def test_worker_that_waits_looks_for_itself_on_a_busy_bus_too(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """Messages published meanwhile don't concern it."""
    queue = made(one_client, "q12", backoff_s=0)
    one_bus.publish("q12.request", from_agent="lead")
    (claim,) = claimed(one_client, queue)
    one_client.post(f"/v1/claims/{claim['token']}/fail", json={"error": "x", "retry_after_s": 0.5})
    over = threading.Event()

    def keep_busy() -> None:
        while not over.wait(0.2):
            one_bus.publish("q12.news", from_agent="lead")

    with ThreadPoolExecutor() as threads:
        threads.submit(keep_busy)
        try:
            (again,) = claimed(one_client, queue, wait_s=8)
        finally:
            over.set()
    assert again["attempt"] == 2


@pytest.mark.slow
def test_worker_that_goes_away_while_it_waits_is_given_nothing(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    queue = made(one_client, "q9")
    send_and_leave(one_client, f"/v1/queues/{queue}/claims?wait_s=20", {"worker": "gone"})
    one_bus.publish("q9.request", from_agent="lead")
    # Where the message came before the request, the job was claimed for it, and is handed back.
    (claim,) = claimed(one_client, queue, wait_s=10)
    assert (claim["attempt"], claim["worker"]) == (1, "w")


def test_work_claimed_for_a_worker_that_is_gone_is_handed_back(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """It goes away while its claim waits for the write lock."""
    queue = made(one_client, "q10")
    one_bus.publish("q10.request", from_agent="lead")
    with one_bus.transaction():
        send_and_leave(one_client, f"/v1/queues/{queue}/claims", {"worker": "gone"})
    job = f"/v1/queues/{queue}/jobs/{one_bus.log.newest_seq()}"
    wait_until(lambda: one_client.get(job).json().get("error") is not None)
    (claim,) = claimed(one_client, queue)
    assert claim["attempt"] == 1
    (lost, _) = one_client.get(job).json()["attempts"]
    assert (lost["worker"], lost["status"]) == ("gone", "lost")


def test_publisher_that_goes_away_before_there_is_room_publishes_nothing(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    one_bus.heartbeats.beat("narrow")
    one_bus.limits.set_for_inbox("narrow", 1)
    seq = one_bus.publish("t", from_agent="a", to_agent="narrow").seq
    message = {"type": "ghost", "from": "a", "to": "narrow"}
    ended = count_of_full(one_client)
    send_and_leave(one_client, "/v1/messages?wait_s=20", message)
    wait_until(lambda: count_of_full(one_client) > ended)  # the server has seen that it left
    one_client.post("/v1/inboxes/narrow/ack", json={"seq": seq})
    mail = one_client.get("/v1/inboxes/narrow", params={"wait_s": 0.5})  # it would look each 0.05 s
    assert mail.json()["messages"] == []


def count_of_full(client: httpx.Client) -> float:
    """Returns how many publications the server has refused so far, as there was no room."""
    labels = ("POST", "/v1/messages", "429")
    return scrape(client).get(("ackbus_http_requests_total", labels), 0)


@pytest.mark.slow
def test_many_publishers_that_wait_for_room_try_no_more_often_together(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try is work, and keeps others from theirs."""
    bus.heartbeats.beat("narrow")
    bus.limits.set_for_inbox("narrow", 1)
    bus.publish("t", from_agent="a", to_agent="narrow")
    tries = []
    append = bus.log.append

    def counted(drafts: list[Draft], **options: Any) -> list[Receipt]:
        tries.append(drafts)
        return append(drafts, **options)

    monkeypatch.setattr(bus.log, "append", counted)

    async def run() -> None:
        app = create_app(bus, BusAccess(bus))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client,
        ):
            message = {"type": "t", "from": "a", "to": "narrow"}
            post = partial(client.post, "/v1/messages", json=message, params={"wait_s": 1})
            for refused in await asyncio.gather(*(post() for _ in range(100))):
                problem(refused, 429, "limit-reached")

    asyncio.run(run())
    assert len(tries) < 100 + 500  # 250 a second, however many wait


@pytest.mark.slow
def test_publisher_that_waits_for_room_is_answered_when_the_server_stops(
    bus: Bus, bus_dir: Path
) -> None:
    bus.heartbeats.beat("narrow")
    bus.limits.set_for_inbox("narrow", 1)
    bus.publish("t", from_agent="a", to_agent="narrow")
    message = {"type": "t", "from": "a", "to": "narrow"}
    with ExitStack() as stack:
        with serving(bus_dir) as url, httpx.Client(base_url=url, timeout=60) as client:
            connection = stack.enter_context(sent(client, "/v1/messages?wait_s=20", message))
        assert b" 429 " in connection.recv(1000).split(b"\r\n")[0]


@contextmanager
def sent(client: httpx.Client, path: str, body: dict[str, object]) -> Iterator[socket.socket]:
    """A connection on which something was posted, with which the server has begun."""
    url, data = client.base_url, json.dumps(body).encode()
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        client.get("/v1/openapi.json")  # asked later, and so answered later
        yield connection


def send_and_leave(client: httpx.Client, path: str, body: dict[str, object]) -> None:
    """Posts, and closes the connection as soon as the server has begun with it."""
    with sent(client, path, body):
        pass
    client.get("/v1/openapi.json")


def test_queue_that_is_paused_gives_out_nothing(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q6")
    one_bus.publish("q6.request", from_agent="lead")
    assert "paused_at" in one_client.post(f"/v1/queues/{queue}/pause").json()
    assert claimed(one_client, queue) == []
    assert one_client.get(f"/v1/queues/{queue}").json()["state"] == "paused"
    assert "paused_at" not in one_client.post(f"/v1/queues/{queue}/resume").json()
    assert len(claimed(one_client, queue)) == 1


def test_queue_shows_what_the_command_shows(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q7", ordering="priority", max_running=3)
    shown = one_client.get(f"/v1/queues/{queue}").json()
    assert (shown["policy"]["ordering"], shown["policy"]["max_running"]) == ("priority", 3)
    assert (shown["waiting"], shown["success_rate"]) == (0, None)
    changed = one_client.patch(f"/v1/queues/{queue}", json={"max_running": 5}).json()
    assert (changed["policy"]["ordering"], changed["policy"]["max_running"]) == ("priority", 5)
    other = one_client.put(f"/v1/queues/{queue}", json={"type": "other"})
    problem(other, 409, "queue-mismatch")
    other = one_client.put(
        f"/v1/queues/{queue}", json={"type": "q7.request", "policy": {"max_attempts": 9}}
    )
    problem(other, 409, "queue-mismatch")
    assert one_client.put(f"/v1/queues/{queue}", json={"type": "q7.request"}).status_code == 200
    assert queue in [each["queue"] for each in one_client.get("/v1/queues").json()["queues"]]


def test_jobs_are_listed_purged_and_tried_again(one_client: httpx.Client, one_bus: Bus) -> None:
    queue = made(one_client, "q8")
    seqs = [one_bus.publish("q8.request", from_agent="lead").seq for _ in range(3)]
    asked = {"queue": queue, "state": "queued"}
    assert [job["seq"] for job in one_client.get("/v1/jobs", params=asked).json()["jobs"]] == seqs
    cancelled = one_client.post(f"/v1/queues/{queue}/jobs/{seqs[0]}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert one_client.post(f"/v1/queues/{queue}/purge").json()["cancelled"] == 2
    retried = one_client.post(f"/v1/queues/{queue}/jobs/{seqs[0]}/retry").json()
    assert retried["state"] == "queued"
    twice = one_client.post(f"/v1/queues/{queue}/jobs/{seqs[0]}/retry")
    problem(twice, 409, "wrong-job-state")


def test_slip_in_a_path_is_no_other_name(one_client: httpx.Client) -> None:
    """A slash in a name is written %2F."""
    queue = made(one_client, "q11")
    refused = one_client.put(f"/v1/queues/{queue}/claims", json={})
    problem(refused, 405, "method-not-allowed")
    assert refused.headers["Allow"] == "POST"
    assert "%2F" in problem(one_client.put("/v1/queues/q11/x", json={}), 404, "not-found")
    assert one_client.put("/v1/queues/q11%2Fx", json={}).status_code == 201
    names = [each["queue"] for each in one_client.get("/v1/queues").json()["queues"]]
    assert [name for name in names if name.startswith("q11")] == ["q11", "q11/x"]


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/v1/queues/nobody", "queue-not-found"),
        ("GET", "/v1/queues/nobody/jobs/1", "queue-not-found"),
        ("GET", "/v1/claims/99999", "claim-not-found"),
    ],
)
def test_what_is_not_there_is_not_found(
    one_client: httpx.Client, method: str, path: str, kind: str
) -> None:
    problem(one_client.request(method, path), 404, kind)


def test_full_inbox_refuses_publishers_and_makes_them_wait(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    limit = one_client.put("/v1/limits/inbox/full", json={"max_waiting": 1})
    assert limit.json() == {"kind": "inbox", "name": "full", "max_waiting": 1, "waiting": 0}
    message = {"type": "t", "from": "a", "to": "full"}
    receipt = one_client.post("/v1/messages", json=message).json()
    newest = one_bus.log.newest_seq()
    refused = one_client.post("/v1/messages", json=message, params={"wait_s": 0.2})
    assert "full" in problem(refused, 429, "limit-reached")
    assert (refused.json()["name"], refused.json()["max_waiting"]) == ("full", 1)
    assert one_bus.log.newest_seq() == newest
    one_client.post("/v1/inboxes/full/ack", json={"seq": receipt["seq"]})
    assert one_client.post("/v1/messages", json=message).status_code == 201
    assert one_client.delete("/v1/limits/inbox/full").status_code == 204
    problem(one_client.delete("/v1/limits/inbox/full"), 404, "not-found")


def test_jobs_of_the_automation_are_run_by_no_client(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """By a name, a client would take and end them while the service is down, or in its stead."""
    queue = Queue.create(one_bus, "plugin.p", "plugin.p.*", addressed="automation", hides="all")
    draft = Draft("plugin.p.poll", from_agent="api", to_agent="automation")
    with one_bus.transaction():
        queue.take_in([each.seq for each in one_bus.log.append([draft])])
    url = "/v1/queues/plugin.p/claims"
    for wanted in ({"worker": "w", "group": "automation"}, {"worker": "automation"}):
        assert "automation start" in problem(one_client.post(url, json=wanted), 403, "forbidden")
    problem(one_client.post(url, json={"worker": "w"}), 409, "refused")
    (claim,) = Queue.open(one_bus, "plugin.p").claim("service", group="automation")
    for act in ("complete", "renew", "release"):
        problem(one_client.post(f"/v1/claims/{claim.token}/{act}", json={}), 403, "forbidden")
    failed = one_client.post(f"/v1/claims/{claim.token}/fail", json={"error": "x"})
    problem(failed, 403, "forbidden")
    assert Queue.open(one_bus, "plugin.p").status(claim) == "active"
