"""Webhooks over HTTP, as their senders send them, to a service that runs."""

import json
import select
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.server.webhooks import MAX_HELD_BYTES

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, dumping
from . import senders
from .receiving import Receiving, receiving
from .senders import Request, config, github, shopify, standard, stripe

#: The plain endpoint of the requirements, and what it takes.
PLAIN = """
        - {path: /hook/plain, plugin: echo, secret_ref: shopify, signature_header: X-S}
        - {path: /hook/two, plugin: echo, secret_ref: shopify, signature_header: X-S,
           rate_limit: 2/h}
        - {path: /hook/tiny, plugin: echo, secret_ref: shopify, signature_header: X-S,
           max_body_size: 10B}
"""


def plain(body: bytes = b"{}", path: str = "/hook/plain") -> Request:
    signature = senders.mac(senders.SHOPIFY_SECRET.encode(), body).hex()
    return path, {"X-S": signature}, body


@pytest.fixture
def receiver(bus: Bus, folder: Folder) -> Iterator[Receiving]:
    folder.write(config=config(PLAIN))
    folder.plugin("echo", run=dumping())
    folder.lock()
    with receiving(bus, folder.path) as found:
        yield found


def handled(folder: Folder, job_id: str) -> dict[str, object]:
    """The event that the plugin was told of, without what differs each time."""
    path = folder.path / "plugins" / "echo" / f"{job_id}.json"
    wait_until(path.exists)
    event = json.loads(path.read_text())["event"]
    assert event.pop("event_id") == job_id
    assert event.pop("timestamp")
    return dict(event)


@pytest.mark.requirement("D-123", "D-09")
def test_real_requests_of_four_senders_are_handled(receiver: Receiving, folder: Folder) -> None:
    now = time.time()
    wanted = {
        "github.push": github(),
        "setup_intent.created": stripe(at=now),
        "webhook.received": standard(at=now),
        "orders/create": shopify(),
    }
    for type, request in wanted.items():
        job_id = receiver.take(request)
        assert receiver.served.ended(job_id).state == "succeeded"
        assert handled(folder, job_id) == {
            "type": type,
            "source": f"webhook:{request[0]}",
            "payload": json.loads(request[2]),
        }
        message = receiver.bus.get(job_id)
        assert message is not None
        assert (message.from_agent, message.to_agent) == ("webhook", "automation")
        assert message.headers["submitted_by"] == "webhook"
    assert len(receiver.jobs()) == len(wanted)


FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}


def test_the_form_in_which_github_sends_json_is_read(receiver: Receiving, folder: Folder) -> None:
    """The signature is of the form as it came."""
    path, headers, body = plain(b"payload=%7B%22ref%22%3A+%22a%26b%C3%A4%22%7D")
    job_id = receiver.take((path, headers | FORM, body))
    assert handled(folder, job_id)["payload"] == {"ref": "a&b\u00e4"}
    path, headers, body = plain(b'{"x": "payload=1"}')  # what is JSON is read as that
    job_id = receiver.take((path, headers | FORM, body))
    assert handled(folder, job_id)["payload"] == {"x": "payload=1"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"a=1", "not of one field 'payload'"),
        (b"payload=1&a=2", "not of one field 'payload'"),
        (b"payload=1&payload=2", "not of one field 'payload'"),
        (b"payload=%FF", "not of one field 'payload'"),
        (b"\xff", "not of one field 'payload'"),
        (b"&" * 100_000, "not of one field 'payload'"),
        (b"payload=%7B", "payload of the form is not valid JSON"),
        (b"payload=", "payload of the form is not valid JSON"),
    ],
)
def test_another_form_is_refused(receiver: Receiving, body: bytes, told: str) -> None:
    path, headers, body = plain(body)
    answer = receiver.send((path, headers | FORM, body))
    assert (answer.status_code, told in answer.text) == (400, True)
    assert receiver.send((path, headers, body)).status_code == 400
    assert receiver.jobs() == []


def test_an_event_of_the_documents_form_is_told_as_it_is(
    receiver: Receiving, folder: Folder
) -> None:
    job_id = receiver.take(plain(b'{"payload": {"reason": "manual rebuild"}}'))
    assert handled(folder, job_id)["payload"] == {"reason": "manual rebuild"}
    job_id = receiver.take(plain(b'{"type": "x y/z", "payload": 5}'))
    assert handled(folder, job_id) == {
        "type": "x y/z",
        "source": "webhook:/hook/plain",
        "payload": 5,
    }
    whole = {"event": "meeting.started", "payload": {"id": 1}}  # another's, not ours
    job_id = receiver.take(plain(json.dumps(whole).encode()))
    assert handled(folder, job_id)["payload"] == whole
    assert handled(folder, receiver.take(plain(b"")))["payload"] is None


@pytest.mark.requirement("D-126")
def test_d_126_every_bad_signature_has_the_same_answer_that_tells_nothing(
    receiver: Receiving, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    good = senders.mac(senders.SHOPIFY_SECRET.encode(), b"{}").hex()
    texts = ["", good[:-1], good[1:] + "0", "0" * 64, f"sha1={good}", f"{good},{good}", "é", "="]
    bad = [("/hook/plain", {"X-S": text.encode()}, b"{}") for text in texts]
    answers = [receiver.client.post(p, content=b, headers=h) for p, h, b in bad]
    answers.append(receiver.client.post("/hook/plain", content=b"{}"))
    answers.append(receiver.send(("/hook/plain", {"X-S": good}, b"not json")))
    answers.append(receiver.send(stripe(at=now - 600)))
    answers.append(receiver.send(standard(at=now + 600)))
    answers.append(receiver.send(standard(at=now, secret=senders.STRIPE_SECRET[:-2] + "==")))
    path, headers, body = standard(at=now)
    answers.append(receiver.send((path, headers | {"webhook-id": "msg_other"}, body)))
    for answer in answers:
        answer.headers.pop("date")
        told = (answer.status_code, answer.content, dict(answer.headers))
        assert told == (403, b"", {"content-length": "0"})
    assert receiver.jobs() == []
    for secret in senders.ENVIRON.values():
        assert secret not in caplog.text


@pytest.mark.requirement("D-127")
def test_d_127_a_body_over_the_limit_is_refused_before_it_is_read(receiver: Receiving) -> None:
    limit = 1 << 20
    body = b'"' + b"x" * (limit - 2) + b'"'
    assert receiver.send(plain(body)).status_code == 202
    answer = receiver.send(plain(body + b" "))
    assert (answer.status_code, answer.json()) == (413, {"error": "payload too large"})
    assert receiver.send(plain(b"1234567890", "/hook/tiny")).status_code == 202
    assert receiver.send(plain(b"12345678901", "/hook/tiny")).status_code == 413
    with receiver.connect() as connection:  # a length that is told, and nothing of it sent
        head = f"POST /hook/plain HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    with receiver.connect() as connection:  # none is told, and the body never ends
        head = "POST /hook/tiny HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + b"8\r\n12345678\r\n8\r\n12345678\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    assert len(receiver.jobs()) == 2


@pytest.mark.requirement("D-129")
def test_d_129_the_same_request_twice_is_two_jobs_unless_asked_otherwise(
    receiver: Receiving,
) -> None:
    assert receiver.take(plain()) != receiver.take(plain())
    assert len(receiver.jobs()) == 2


@pytest.mark.requirement("Q-14")
def test_a_repeated_delivery_is_the_same_job(receiver: Receiving) -> None:
    now = time.time()
    first = receiver.take(github("d-1"))
    receiver.served.ended(first)
    assert receiver.take(github("d-1")) == first
    assert receiver.take(github("d-2")) != first
    event = receiver.take(stripe("evt_1", at=now - 60))
    assert receiver.take(stripe("evt_1", at=now)) == event  # signed again, it is the same event
    message = receiver.take(standard("msg_1", at=now - 60))
    assert receiver.take(standard("msg_1", at=now)) == message
    old = receiver.take(standard("msg_2", at=now, secret=senders.OLD_STANDARD_SECRET))
    assert old != message
    assert receiver.take(shopify("d-1")) != first  # each endpoint has deliveries of its own
    assert len(receiver.jobs()) == len(set(receiver.jobs())) == 6


def test_a_delivery_without_the_id_that_is_asked_for_is_refused(receiver: Receiving) -> None:
    path, headers, body = github()
    for wrong in ("", "x" * 256, "a\tb"):
        answer = receiver.send((path, headers | {"X-GitHub-Delivery": wrong}, body))
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("header:X-GitHub-Delivery is no text of 1 to 255")
    assert receiver.jobs() == []


@pytest.mark.requirement("Q-15")
def test_a_rate_limit_counts_signed_requests_alone(receiver: Receiving) -> None:
    for _ in range(5):
        assert receiver.client.post("/hook/two", content=b"{}").status_code == 403
    codes = [receiver.send(plain(path="/hook/two")).status_code for _ in range(3)]
    assert codes == [202, 202, 429]
    answer = receiver.send(plain(path="/hook/two"))
    assert 1 <= int(answer.headers["Retry-After"]) <= 1800
    assert receiver.send(plain()).status_code == 202
    assert len(receiver.jobs()) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"a=1&b=2",
        b"\xff",
        b'{"a": NaN}',
        b'{"n": 123456789012345678901234567890}',
        b"[" * 999,
    ],
)
def test_a_signed_body_that_is_no_json_is_refused(receiver: Receiving, body: bytes) -> None:
    answer = receiver.send(plain(body))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("the body ")
    assert receiver.jobs() == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_and_paths_are_refused(receiver: Receiving, method: str) -> None:
    answer = receiver.client.request(method, "/hook/plain")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    other = receiver.client.request(method, "/hook/other")
    assert (other.status_code, other.headers["Connection"]) == (404, "close")
    assert receiver.client.request(method, "/hook/plain/").status_code == 404


@pytest.mark.requirement("D-130")
def test_d_130_health_tells_five_things_without_a_token(bus: Bus, folder: Folder) -> None:
    folder.write(config=config())
    folder.plugin(
        "echo", run=f"#!/bin/sh\nwhile [ ! -e {folder.path}/go ]; do sleep 0.02; done\n{OK}"
    )
    folder.lock()
    with receiving(bus, folder.path) as receiver:
        jobs = [receiver.take(github("d-1")), receiver.take(github("d-2"))]
        wait_until(lambda: receiver.served.job(jobs[0]).state == "running")
        answer = receiver.client.get("/healthz")
        found = answer.json()
        assert found.pop("uptime_seconds") >= 0
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
        assert found == {
            "status": "ok",
            "queue_depth": 2,
            "plugins_loaded": 1,
            "plugins_circuit_open": 0,
        }
        assert receiver.client.head("/healthz").status_code == 200
        assert receiver.client.post("/healthz").status_code == 405
        (folder.path / "go").touch()
        for job_id in jobs:
            receiver.served.ended(job_id)
        assert receiver.client.get("/healthz").json()["queue_depth"] == 0


def test_a_slow_client_is_dropped_and_keeps_nobody(bus: Bus, folder: Folder) -> None:
    folder.write(config=config(PLAIN))
    folder.plugin("echo", run=OK)
    folder.lock()
    head = b"POST /hook/plain HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    with receiving(bus, folder.path, body_s=0.5) as receiver:
        slow = [receiver.connect() for _ in range(50)]
        try:
            for connection in slow:
                connection.sendall(head + b"x")
            assert receiver.send(plain()).status_code == 202  # while they are waited for
            for connection in slow:
                assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        finally:
            for connection in slow:
                connection.close()
        with receiver.connect() as connection:  # it leaves in the middle
            connection.sendall(head + b"x")
        assert receiver.send(plain()).status_code == 202
        assert len(receiver.jobs()) == 2


@pytest.mark.slow
def test_bodies_under_way_have_a_bounded_memory(receiver: Receiving) -> None:
    """Nothing is known of their senders yet; those of others are taken once these are gone."""
    size = 1 << 20
    head = f"POST /hook/plain HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    with ExitStack() as stack:
        many = [stack.enter_context(receiver.connect()) for _ in range(MAX_HELD_BYTES // size + 1)]
        for connection in many:
            with suppress(ConnectionError):  # it may be refused, and ended, while it sends
                connection.sendall(head + b"x" * (size - 1))
        answered, _, _ = select.select(many, [], [], 30)
        answer = answered[0].recv(1000)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer.lower()
    wait_until(lambda: receiver.send(plain(b"0" * 1000)).status_code != 503)
    assert receiver.send(plain()).status_code == 202


def test_health_is_told_while_all_requests_wait_for_the_bus(receiver: Receiving) -> None:
    with ThreadPoolExecutor(8) as pool, receiver.bus.transaction():
        waiting = [pool.submit(receiver.send, plain()) for _ in range(8)]
        answer = receiver.client.get("/healthz", timeout=60)
        assert answer.status_code == 200
        assert not any(each.done() for each in waiting)
    assert {each.result().status_code for each in waiting} == {202}


def test_a_request_is_stored_though_its_client_does_not_wait(receiver: Receiving) -> None:
    path, headers, body = plain(b'"left"')
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with receiver.connect() as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    wait_until(lambda: len(receiver.jobs()) == 1)
    receiver.served.ended(receiver.jobs()[0])


@pytest.mark.slow
def test_many_deliveries_at_once_are_each_one_job(receiver: Receiving) -> None:
    """Each of 12 deliveries is sent by 4 clients at once."""
    found: dict[str, set[str]] = {}
    barrier = threading.Barrier(4)

    def send() -> None:
        with httpx.Client(base_url=receiver.url, timeout=60) as client:
            for number in range(12):
                path, headers, body = github(f"d-{number}")
                barrier.wait(60)
                answer = client.post(path, content=body, headers=headers)
                found.setdefault(f"d-{number}", set()).add(answer.json()["job_id"])

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert [len(ids) for ids in found.values()] == [1] * 12
    assert len(receiver.jobs()) == 12


def test_another_configuration_counts_from_the_next_request_on(
    receiver: Receiving, folder: Folder
) -> None:
    assert receiver.send(plain()).status_code == 202
    folder.write(config=config(PLAIN.replace("/hook/plain", "/hook/new")))
    folder.lock()
    receiver.served.service.reload()
    wait_until(lambda: receiver.send(plain()).status_code == 404)
    assert receiver.send(plain(path="/hook/new")).status_code == 202


def test_a_secret_counts_until_another_configuration_is_taken(
    receiver: Receiving, folder: Folder
) -> None:
    path, headers, body = plain()
    assert receiver.send((path, headers, body)).status_code == 202
    other = PLAIN.replace("plugin: echo, secret_ref: shopify", "plugin: echo, secret_ref: stripe")
    folder.write(config=config(other))
    folder.lock()
    receiver.served.service.reload()
    wait_until(lambda: receiver.send((path, headers, body)).status_code == 403)
    signature = senders.mac(senders.STRIPE_SECRET.encode(), body).hex()
    assert receiver.send((path, {"X-S": signature}, body)).status_code == 202


def test_a_plugin_that_does_not_run_is_tried_again_later(bus: Bus, folder: Folder) -> None:
    folder.write(config=config(PLAIN))
    folder.plugin("echo", run=OK)
    (folder.path / "plugins" / "echo" / "manifest.yaml").write_text("name: [\n")
    folder.lock()
    with receiving(bus, folder.path) as receiver:
        answer = receiver.send(plain())
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
        assert receiver.client.get("/healthz").json()["plugins_loaded"] == 0


def test_no_secret_reaches_the_bus(receiver: Receiving, tmp_path: Path) -> None:
    receiver.served.ended(receiver.take(github()))
    receiver.served.ended(receiver.take(standard(at=time.time())))
    for (table,) in file_of(receiver.bus).rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%'"
    ):
        text = repr(file_of(receiver.bus).rows(f"SELECT * FROM {table}"))
        for secret in senders.ENVIRON.values():
            assert secret not in text, table
