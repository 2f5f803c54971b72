"""Any bytes as a request: each has an answer, never an error of the receiver's own."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackbus import Bus

from ...sizes import size
from ..conftest import Folder
from ..running import OK
from .receiving import Receiving, receiving
from .senders import SHOPIFY_SECRET, config, mac

pytestmark = pytest.mark.slow

PLAIN = """
        - {path: /hook/plain, plugin: echo, secret_ref: shopify, signature_header: X-S,
           event_type_from: body:type, delivery_id: header:X-Id, max_body_size: 64KB}
"""

#: The names of headers that mean something to the receiver, or to HTTP.
NAMES = [
    *("X-S", "X-Id", "Stripe-Signature", "X-Hub-Signature-256", "X-GitHub-Delivery"),
    *("webhook-id", "webhook-timestamp", "webhook-signature", "Content-Type", "Content-Length"),
    *("Transfer-Encoding", "Content-Encoding", "Expect", "Connection", "Upgrade", "Host"),
]
PATHS = [
    "/hook/plain",
    "/hook/github",
    "/hook/stripe",
    "/hook/standard",
    "/healthz",
    "/%2e%2e/",
    "*",
]

_VALUES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            *(b"", b"t=1,v1=", b"v1,", b"sha256=", b"0" * 64, b"-1", b"1e9", b"chunked", b"9" * 30),
            *(b"100-continue", b"websocket", b"\xff\xfe", b"t=" + b"9" * 400, b"v1=a," * 500),
        ]
    ),
)
_HEADERS = st.lists(
    st.tuples(st.one_of(st.sampled_from(NAMES).map(str.encode), st.binary(max_size=10)), _VALUES),
    max_size=6,
)
_SOME = settings(
    max_examples=size(sample=60, whole=2000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def receiver(bus: Bus, folder: Folder) -> Iterator[Receiving]:
    folder.write(config=config(PLAIN))
    folder.plugin("echo", run=OK)
    folder.lock()
    with receiving(bus, folder.path) as found:
        yield found


def exchange(receiver: Receiving, request: bytes) -> bytes:
    """Sends bytes, and returns the answer; "" where the connection is closed without one."""
    with receiver.connect() as connection:
        connection.sendall(request)
        connection.shutdown(1)
        pieces = []
        try:
            while piece := connection.recv(65_536):
                pieces.append(piece)
        except ConnectionResetError:  # it is closed before all is read: what came, came
            pass
    return b"".join(pieces)


def test_no_request_is_an_error_of_the_receiver(receiver: Receiving) -> None:
    @_SOME
    @given(
        st.sampled_from(["POST", "GET", "HEAD", "post", "X"]),
        st.sampled_from(PATHS),
        _HEADERS,
        st.binary(max_size=300),
    )
    def check(method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: x"]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"Content-Length: %d" % len(body), b"", b""]
        answer = exchange(receiver, b"\r\n".join(lines) + body)
        assert answer == b"" or b" 5" not in answer.split(b"\r\n", 1)[0][8:10], answer

    check()
    assert receiver.jobs() == []
    assert receiver.client.get("/healthz").status_code == 200


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_every_signed_body_is_taken_or_named_wrong(receiver: Receiving) -> None:
    """A body that is taken is stored as it was sent; each new delivery is one more job."""
    number = 0

    @_SOME
    @given(
        st.one_of(
            st.binary(max_size=100),
            _JSON.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
            st.tuples(st.text(), _JSON).map(
                lambda pair: json.dumps({"type": pair[0], "payload": pair[1]}).encode()
            ),
        )
    )
    def check(body: bytes) -> None:
        nonlocal number
        number += 1
        before = len(receiver.jobs())
        headers = {"X-S": mac(SHOPIFY_SECRET.encode(), body).hex(), "X-Id": f"d-{number}"}
        answer = receiver.client.post("/hook/plain", content=body, headers=headers)
        assert answer.status_code in (202, 400), answer.text
        jobs = receiver.jobs()
        assert len(jobs) == before + (answer.status_code == 202)
        if answer.status_code == 202:
            message = receiver.bus.get(answer.json()["job_id"])
            assert message is not None
            sent = json.loads(body)
            assert message.payload == (
                sent["payload"] if sent.keys() == {"type", "payload"} else sent
            )

    check()
