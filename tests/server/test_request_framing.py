"""Requests that two readers would end in different places: refused, and the last on their way."""

import ast
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ackbus.server import connections
from ackbus.server.running import Listeners, ServedApp

#: A request within a request: what a proxy in front would never have let through.
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: here\r\n\r\n"

#: Heads and bodies that are refused; a smuggled request comes behind each.
REFUSED = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, turned round": b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "both, the length zero": b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "unequal lengths": b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "equal lengths": b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "lengths in a line": b"Content-Length: 0, 0\r\n\r\n",
    "unequal lengths in a line": b"Content-Length: 0, 5\r\n\r\n",
    "signed length": b"Content-Length: +0\r\n\r\n",
    "negative length": b"Content-Length: -1\r\n\r\n",
    "hexadecimal length": b"Content-Length: 0x0\r\n\r\n",
    "length of no digits": b"Content-Length: \r\n\r\n",
    "length in other digits": "Content-Length: \u0660\r\n\r\n".encode(),
    "space before the colon": b"Content-Length : 0\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: identity\r\n\r\n",
    "coding after chunked": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "coding before chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding in quotes": b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "coding and a tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "folded coding": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "folded length": b"Content-Length:\r\n\t0\r\n\r\n",
    "folded other": b"X: a\r\n Content-Length: 5\r\n\r\n",
    "folded by nothing": b"X: a\r\n \r\n\r\n",
    "bare ends of lines": b"X: a\nContent-Length: 0\r\n\r\n",
    "bare end of the head": b"X: a\r\n\n",
    "bare return": b"X: a\rContent-Length: 5\r\n\r\n",
    "chunk of no size": b"Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
    "chunk of letters": b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
    "chunk of a signed size": b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
    "chunk of a size with 0x": b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "chunk that is longer": b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "chunk of an endless size": b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 40 + b"\r\n\r\n",
}

#: Requests that say once where they end.
TAKEN = {
    "no body": (b"\r\n", b""),
    "a length": (b"Content-Length: 3\r\n\r\nabc", b"abc"),
    "chunks": (b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
    "chunks in capitals": (b"TRANSFER-ENCODING: Chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n", b"c"),
    "a name like one": (b"X-Content-Length: 9\r\nContent-Length: 1\r\n\r\na", b"a"),
    "a body like a head": (b"Content-Length: 8\r\n\r\na\n b\rc\n\n", b"a\n b\rc\n\n"),
}


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """The paths of the requests that the application got."""
    return []


@pytest.fixture(scope="module")
def address(asked: list[str]) -> Iterator[tuple[str, int]]:
    async def echo(request: Request) -> Response:
        asked.append(request.url.path)
        return PlainTextResponse(b"body=" + await request.body())

    app = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST"])])
    with Listeners([ServedApp("echo", "127.0.0.1:0", app)]) as listeners:
        listeners.start()
        host, _, port = listeners.urls["echo"].removeprefix("http://").rpartition(":")
        yield host, int(port)


def answers(address: tuple[str, int], sent: bytes) -> bytes:
    """All that a server says until it closes the connection."""
    with socket.create_connection(address, 30) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        heard = b""
        while data := client.recv(65536):
            heard += data
    return heard


@pytest.mark.parametrize("what", REFUSED)
def test_doubtful_request_is_refused_and_nothing_behind_it_is_answered(
    what: str, address: tuple[str, int], asked: list[str]
) -> None:
    """Issue 29, item 9."""
    asked.clear()
    head = b"POST /first HTTP/1.1\r\nHost: here\r\n"
    heard = answers(address, head + REFUSED[what] + SMUGGLED)
    assert heard.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in heard.lower()
    assert heard.count(b"HTTP/1.1 ") == 1
    assert "/smuggled" not in asked


@pytest.mark.parametrize("what", ["both", "equal lengths", "folded coding", "unknown coding"])
def test_doubtful_request_after_a_good_one_is_refused(
    what: str, address: tuple[str, int], asked: list[str]
) -> None:
    asked.clear()
    good = b"GET /good HTTP/1.1\r\nHost: here\r\n\r\n"
    heard = answers(address, good + b"POST / HTTP/1.1\r\nHost: here\r\n" + REFUSED[what] + SMUGGLED)
    assert [part[:3] for part in heard.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]
    assert asked == ["/good"]


def test_chunks_before_http_1_1_are_refused(address: tuple[str, int]) -> None:
    sent = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert answers(address, sent + SMUGGLED).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("what", TAKEN)
def test_request_that_ends_in_one_place_is_answered_and_the_next_one_too(
    what: str, address: tuple[str, int], asked: list[str]
) -> None:
    asked.clear()
    sent, body = TAKEN[what]
    heard = answers(
        address,
        b"POST /first HTTP/1.1\r\nHost: here\r\n"
        + sent
        + b"GET /next HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n",
    )
    assert heard.count(b"HTTP/1.1 200 ") == 2
    assert b"\r\n\r\nbody=" + body + b"HTTP/1.1" in heard
    assert asked == ["/first", "/next"]


def test_body_in_very_many_tiny_chunks_is_refused_and_other_bodies_are_taken(
    address: tuple[str, int], asked: list[str]
) -> None:
    """Each chunk takes time of all clients: a body of 17 MiB in chunks of a byte took minutes."""
    head = b"POST /first HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    few, large = b"1\r\na\r\n" * 4000, b"64\r\n" + b"a" * 100 + b"\r\n"
    for body in (few, large * 5000):
        assert answers(address, head + body + b"0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    # More than is read at once would be reset, with the answer.
    assert answers(address, head + b"1\r\na\r\n" * 5000).startswith(b"HTTP/1.1 400 ")


def test_every_server_has_its_connections_from_one_place() -> None:
    """A server with a configuration of its own would read requests in another way."""
    package = Path(connections.__file__).parents[1]
    makers = set()
    for path in package.rglob("*.py"):
        if {".venv", "build", "tests", "bench"} & set(path.relative_to(package).parts):
            continue
        text = path.read_text("utf-8")
        if "uvicorn" in text:
            calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
            if any(ast.unparse(each.func) in ("uvicorn.Config", "uvicorn.run") for each in calls):
                makers.add(path.relative_to(package).as_posix())
    assert makers == {"server/connections.py"}
