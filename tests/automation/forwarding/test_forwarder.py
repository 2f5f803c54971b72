"""Messages that are forwarded, and what becomes of them by the answers of their target."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.automation.config.values import key_of
from ackbus.automation.forwarder import (
    MAX_RETRY_AFTER_S,
    MEDIA_TYPE,
    Forwarder,
    Subscription,
    TargetResponse,
    event_of,
)
from ackbus.automation.forwarding_targets import Target
from ackbus.errors import Refused

from ...conftest import wait_until
from .receivers import OK, SECRET, Posted, answer, receiving

KEY = key_of(SECRET, "standard")


def forwarder(
    bus: Bus, url: str, *types: str, patience_s: float = 30, timeout_s: float = 20, **options: Any
) -> Forwarder:
    """A forwarder whose pauses are short."""
    options = {"max_deliveries": 3, "retry_pause_s": 0.001} | options
    subscription = Subscription(bus, "hook", types, **options)
    target = Target.parse(url, allow_private=True)
    return Forwarder(
        subscription,
        target,
        [KEY],
        timeout_s=timeout_s,
        patience_s=patience_s,
        longest_pause_s=0.01,
    )


def forward(bus: Bus, url: str, *types: str, **options: Any) -> None:
    """Forward until nothing is left."""
    forwarder(bus, url, *types, **options).run(drain=True)


def test_message_is_posted_as_a_signed_event(bus: Bus) -> None:
    for agent in ("w", "lead dev"):
        Inbox(bus, agent).join()
    bus.publish("review.request", {"n": 1}, from_agent="lead dev", to_agent="w", id="m/ü 1")
    sent = bus.publish(
        "task.done", None, from_agent="w", to_agent="lead dev", in_reply_to="m/ü 1", priority=0
    )
    bus.publish("news", from_agent="w")
    with receiving() as receiver:
        forward(bus, receiver.url)
    first, second, third = receiver.posted
    for posted in receiver.posted:
        assert posted.line == "POST /hook?token=hush HTTP/1.1"
        assert posted.headers["content-type"] == MEDIA_TYPE
        Webhook(SECRET).verify(posted.body, posted.headers)
    assert first.event == {
        "specversion": "1.0",
        "id": "m/ü 1",
        "source": "/agents/lead%20dev",
        "type": "review.request",
        "time": first.event["time"],
        "seq": "1",
        "conversation": "m/ü 1",
        "priority": "normal",
        "to": "w",
        "datacontenttype": "application/json",
        "data": {"n": 1},
    }
    assert first.headers["webhook-id"] == "m/%C3%BC%201"
    assert second.headers["webhook-id"] == sent.id
    assert {"data": None, "inreplyto": "m/ü 1", "priority": "interactive"}.items() <= (
        second.event.items()
    )
    assert "data" not in third.event


def test_events_are_those_of_the_specification(bus: Bus) -> None:
    """The reference package reads each, with its attributes and data."""
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent

    trace = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=b", "own": [1]}
    Inbox(bus, "c").join()
    payloads: list[object] = [{"a": [1, None]}, "text", 2**63, "x" * 10_000, None]
    for payload in payloads:
        bus.publish("t.x", payload, from_agent="a/b", to_agent="c", headers=trace)
    bus.publish("t.x", payload_ref=bus.blobs.put(b"\0no JSON"), from_agent="a")
    for message in bus.read():
        event = JSONFormat().read(CloudEvent, event_of(message))
        assert (event.get_id(), event.get_type()) == (message.id, "t.x")
        assert event.get_extension("conversation") == message.conversation
        if message.seq <= len(payloads):
            assert event.get_extension("traceparent") == trace["traceparent"]
            assert event.get_source() == "/agents/a%2Fb"
        else:
            assert event.get_extension("dataref") == message.payload_ref


def test_types_are_followed_wherever_their_messages_go(bus: Bus) -> None:
    """Broadcasts, work that a queue hides, and what is addressed to others."""
    Queue.create(bus, "build", "build.request")
    for agent in ("a", "hook"):
        Inbox(bus, agent).join()
    for to in (None, "a", "hook"):
        bus.publish("build.request", str(to), from_agent="lead", to_agent=to)
        bus.publish("build.done", str(to), from_agent="w", to_agent=to)
        bus.publish("other", "no", from_agent="lead", to_agent=to)
    with receiving() as receiver:
        forward(bus, receiver.url, "build.*")
        assert sorted(receiver.data) == sorted(["None", "a", "hook"] * 2)
        forward(bus, receiver.url, "build.*")  # the cursor stands at the end
    assert len(receiver.posted) == 6


def test_cursor_moves_past_what_is_of_other_types(bus: Bus) -> None:
    """Or each look would read it again, and it would never be archived."""
    bus.publish_many(Draft("other", n, from_agent="a") for n in range(2000))
    with receiving() as receiver:
        forward(bus, receiver.url, "wanted")
        assert Inbox(bus, "hook").position == 2000
        bus.publish("wanted", "w", from_agent="a")
        forward(bus, receiver.url, "wanted")
    assert receiver.data == ["w"]


def test_poison_parks_and_the_rest_flows_in_order(bus: Bus) -> None:
    for n in range(10):
        bus.publish("t", n, from_agent="a")

    def judge(posted: Posted, number: int) -> bytes:
        return answer(422) if posted.data in (3, 7) else OK

    with receiving(judge) as receiver:
        forward(bus, receiver.url)
        assert receiver.data == [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 7, 7, 8, 9]
        parked = Inbox(bus, "hook").parked()
        assert [(each.seq, each.attempts) for each in parked] == [(4, 3), (8, 3)]
        assert "answered 422" in parked[0].error
        assert "hush" not in parked[0].error  # of the URL's query
    with receiving() as receiver:
        Inbox(bus, "hook").requeue(4)
        forward(bus, receiver.url)
    assert receiver.data == [3]
    assert [each.seq for each in Inbox(bus, "hook").parked()] == [8]


def test_target_that_is_down_for_an_hour_loses_nothing_and_parks_nothing(bus: Bus) -> None:
    """Some 80 tries, as an hour of pauses up to a minute has: busy, then away, then back."""
    for n in range(5):
        bus.publish("t", n, from_agent="a")
    statuses = [502, 503, 504, 429, 404, 401, 301]

    def recover(posted: Posted, number: int) -> bytes:
        return answer(statuses[number % len(statuses)]) if number < 80 else OK

    with receiving(recover) as receiver:
        forward(bus, receiver.url)
    assert receiver.data == [0] * 81 + [1, 2, 3, 4]
    assert len({each.headers["webhook-id"] for each in receiver.posted[:81]}) == 1
    assert Inbox(bus, "hook").parked() == []


def test_target_that_is_away_is_found_when_it_is_there(bus: Bus) -> None:
    bus.publish("t", 1, from_agent="a")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    running = forwarder(bus, f"http://127.0.0.1:{port}/", retry_pause_s=0.01)
    thread = threading.Thread(target=running.run, kwargs={"drain": True})
    thread.start()
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(OK)
        thread.join(30)
    assert not thread.is_alive()
    assert Inbox(bus, "hook").position == 1


def test_message_on_which_a_target_hangs_for_long_is_parked(bus: Bus) -> None:
    """Otherwise it would keep all behind it back for ever."""
    for n in range(3):
        bus.publish("t", n, from_agent="a")

    def hang(posted: Posted, number: int) -> bytes:
        return answer(503) if posted.data == 1 else OK

    with receiving(hang) as receiver:
        forward(bus, receiver.url, patience_s=0.05)
    assert [receiver.data[0], receiver.data[-1]] == [0, 2]
    (parked,) = Inbox(bus, "hook").parked()
    assert (parked.seq, parked.attempts) == (2, 3)


def test_pause_that_a_target_asks_for_is_kept(bus: Bus) -> None:
    bus.publish("t", 1, from_agent="a")
    times = []

    def ask(posted: Posted, number: int) -> bytes:
        times.append(time.monotonic())
        return answer(429, "Retry-After: 1") if number == 0 else OK

    with receiving(ask) as receiver:
        forward(bus, receiver.url)
    assert times[1] - times[0] >= 1
    assert len(receiver.posted) == 2


@given(text=st.text(max_size=12) | st.integers().map(str))
def test_any_text_for_a_pause_is_bounded(text: str) -> None:
    assert 0 <= TargetResponse(429, text).pause_s(1_790_000_000.5) <= MAX_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("120", 120), ("", 0), ("soon", 0), ("-1", 0), ("9" * 400, MAX_RETRY_AFTER_S)],
        *[("Fri, 27 Nov 2026 12:01:40 GMT", 100), ("Fri, 27 Nov 2026 11:00:00 GMT", 0)],
    ],
)
def test_pause_is_a_number_or_a_date(text: str, seconds: float) -> None:
    now_s = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()
    assert TargetResponse(503, text).pause_s(now_s) == seconds


def test_target_that_is_gone_ends_the_subscription(bus: Bus) -> None:
    for n in range(3):
        bus.publish("t", n, from_agent="a")
    with receiving(lambda posted, number: OK if number == 0 else answer(410)) as receiver:
        with pytest.raises(Refused, match=r"410.*Message 2"):
            forward(bus, receiver.url)
        assert receiver.data == [0, 1]
    assert (Inbox(bus, "hook").position, Inbox(bus, "hook").parked()) == (1, [])
    with receiving() as receiver:
        forward(bus, receiver.url)
    assert receiver.data == [1, 2]


def test_redirect_is_not_followed(bus: Bus) -> None:
    """Not even to this machine, which is allowed here."""
    bus.publish("t", 1, from_agent="a")
    with receiving() as inner:

        def lead(posted: Posted, number: int) -> bytes:
            status = [301, 302, 303, 307, 308][number % 5]
            return OK if number == 10 else answer(status, f"Location: {inner.url}")

        with receiving(lead) as receiver:
            forward(bus, receiver.url)
    assert (len(receiver.posted), inner.connections) == (11, 0)


def test_interim_answers_only_say_that_another_follows(bus: Bus) -> None:
    bus.publish("t", 1, from_agent="a")
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    with receiving(lambda posted, number: interim * 20 + OK) as receiver:
        forward(bus, receiver.url)
    assert receiver.data == [1]


def _slow(connection: socket.socket) -> None:
    """Sends one byte of a head a moment, for ever."""
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: y\r\n" * 1_000_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def _silent(connection: socket.socket) -> None:
    connection.recv(1)  # until the other end gives up


def _endless_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for n in count():
        connection.sendall(f"X-{n}: {'x' * 1000}\r\n".encode())


def _many_headers(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n")


def _interim(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _no_http(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example.org ESMTP\r\n\r\n")


def _nothing(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def _cut_head(connection: socket.socket) -> None:
    """Ends before the empty line: `http.client` by itself takes that for the end of the head."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nA: b\r\n")
    connection.shutdown(socket.SHUT_RDWR)


def _cut_after_interim(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK")
    connection.shutdown(socket.SHUT_RDWR)


TROUBLE = {
    each.__name__: each
    for each in (
        *(_slow, _silent, _endless_head, _many_headers, _interim),
        *(_reset, _no_http, _nothing, _cut_head, _cut_after_interim),
    )
}


@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)
def test_trouble_of_a_target_ends_in_time_and_is_no_answer(
    bus: Bus, trouble: Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    bus.publish("t", 1, from_agent="a")
    with receiving(lambda posted, number: OK if number == 2 else trouble) as receiver:
        began = time.monotonic()
        forward(bus, receiver.url, timeout_s=2)
        assert time.monotonic() - began < 30
    assert receiver.data == [1, 1, 1]
    assert Inbox(bus, "hook").parked() == []
    (first, _) = [each.getMessage() for each in caplog.records]
    assert first.startswith(f"message 1: {receiver.url.partition('/hook')[0]} ")
    assert "hush" not in caplog.text


def test_answer_of_ten_gigabytes_is_not_read(bus: Bus) -> None:
    bus.publish("t", 1, from_agent="a")
    sent = []

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        try:
            for _ in range(10_000):
                connection.sendall(b"x" * 1_000_000)
                sent.append(1)
        finally:
            sent.append(0)

    with receiving(lambda posted, number: flood) as receiver:
        forward(bus, receiver.url)
        wait_until(lambda: 0 in sent)
    assert len(receiver.posted) == 1
    assert sum(sent) < 100  # megabytes: what the kernel had room for


def test_answer_whose_body_is_cut_off_is_an_answer(bus: Bus) -> None:
    bus.publish("t", 1, from_agent="a")
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    with receiving(lambda posted, number: cut) as receiver:
        forward(bus, receiver.url)
    assert len(receiver.posted) == 1


@pytest.mark.slow
def test_target_that_answers_before_all_is_sent_is_heard(bus: Bus) -> None:
    """It refuses a body for its length, and reads none of it."""
    bus.publish("t", "x" * 20_000_000, from_agent="a")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread = threading.Thread(target=lambda: forward(bus, url), daemon=True)
        thread.start()
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer(413))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1_000_000):
                    pass
        thread.join(60)
    (parked,) = Inbox(bus, "hook").parked()
    assert "413" in parked.error


def test_stop_leaves_the_message_at_hand_as_it_is(bus: Bus) -> None:
    """It ends a long pause, and counts as no failure."""
    bus.publish("t", 1, from_agent="a")
    with receiving(lambda posted, number: answer(503, "Retry-After: 3600")) as receiver:
        running = forwarder(bus, receiver.url, patience_s=10_000)
        thread = threading.Thread(target=running.run)
        thread.start()
        wait_until(lambda: receiver.posted)
        running.stop()
        thread.join(60)
        assert not thread.is_alive()
    assert (Inbox(bus, "hook").position, len(receiver.posted)) == (0, 1)
    assert Inbox(bus, "hook").attempts(next(iter(bus.read()))) == 0
    with receiving() as receiver:
        forward(bus, receiver.url)
    assert receiver.data == [1]
