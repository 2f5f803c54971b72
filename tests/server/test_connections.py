"""The socket that the server listens on, and the connections that it keeps."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from ackbus.server.connections import ClientTimeouts, listen_on
from ackbus.server.running import Listeners, ServedApp

#: How long a client may take for the head of a request here, in seconds.
HEAD_S = 1.0


def test_connections_send_what_they_have_at_once() -> None:
    """Or else each response takes 40 ms: its body waits for the acknowledgement of its head."""
    with (
        listen_on("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def url() -> Iterator[str]:
    """A server that answers, and that streams for some time."""

    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await request.body() or b"well")

    async def stream(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(4):
                await asyncio.sleep(HEAD_S)
                yield b"x"

        return StreamingResponse(pieces())

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"]), Route("/stream", stream)])
    with Listeners(
        [ServedApp("test", "127.0.0.1:0", app, ClientTimeouts(head_s=HEAD_S))]
    ) as listeners:
        listeners.start()
        yield listeners.urls["test"]


def connected(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def is_dropped(connection: socket.socket) -> bool:
    """Whether the server ends a connection without a word, before the time is over."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: b"])
def test_a_client_that_sends_no_whole_head_is_dropped(url: str, sent: bytes) -> None:
    with connected(url) as connection:
        connection.sendall(sent)
        assert is_dropped(connection)
    with connected(url) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"well"):
            answer += connection.recv(1000)
        connection.sendall(sent or b"G")
        assert is_dropped(connection)
    assert httpx.get(url).text == "well"


@pytest.mark.slow
def test_a_client_with_requests_keeps_its_connection(url: str) -> None:
    with httpx.Client(base_url=url) as client, client.stream("GET", "/stream") as answer:
        ports = {answer.extensions["network_stream"].get_extra_info("client_addr")[1]}
        with httpx.Client(base_url=url) as other:
            used = set()
            for _ in answer.iter_raw():  # for four times as long as a head may take
                for _ in range(10):
                    found = other.get("/")
                    stream = found.extensions["network_stream"]
                    used.add(stream.get_extra_info("client_addr")[1])
        assert answer.num_bytes_downloaded == 4
    assert len(used) == 1
    assert used != ports


@pytest.mark.slow
def test_a_slow_body_is_no_slow_head(url: str) -> None:
    def pieces() -> Iterator[bytes]:
        with httpx.Client(base_url=url) as clock:
            for _ in range(3):
                yield b"x"
                with clock.stream("GET", "/stream") as answer:
                    next(answer.iter_raw())  # as long as a head may take

    assert httpx.post(url, content=pieces(), timeout=60).text == "xxx"
