"""Blobs over HTTP: streamed in and out, whatever their length."""

import asyncio
import hashlib
import io
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from ackbus import Bus
from ackbus.server.access.access import BusAccess
from ackbus.server.api.blobs import BlobResponse
from ackbus.server.connections import ClientTimeouts
from ackbus.server.running import create_app

from ..conftest import wait_until
from .conftest import Serve, problem


def ref_of(data: bytes) -> str:
    return f"sha256-{hashlib.sha256(data).hexdigest()}"


def temporary(bus: Bus) -> list[str]:
    """The files of transfers that are not over."""
    folder = Path(bus.layout.blobs)
    return [each.name for each in folder.iterdir()] if folder.exists() else []


@pytest.mark.parametrize("size", [0, 1, 100_000, 20_000_000], ids=str)
def test_blob_comes_back_as_it_was_sent(one_client: httpx.Client, one_bus: Bus, size: int) -> None:
    data = os.urandom(size)
    stored = one_client.post("/v1/blobs", content=data)
    assert stored.status_code == 201
    assert stored.json() == {"ref": ref_of(data), "bytes": size}
    for response in (one_client.get(f"/v1/blobs/{ref_of(data)}"),):
        assert response.content == data
        assert response.headers["Content-Length"] == str(size)
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Content-Disposition"].startswith("attachment")
    head = one_client.head(f"/v1/blobs/{ref_of(data)}")
    assert (head.headers["Content-Length"], head.content) == (str(size), b"")
    message = {"type": "t", "from": "a", "payload_ref": ref_of(data)}
    assert one_client.post("/v1/messages", json=message).status_code == 201


def test_blob_of_unknown_length_streams(one_client: httpx.Client) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    stored = one_client.post("/v1/blobs", content=pieces())
    assert stored.json() == {"ref": ref_of(b"x" * 100_000), "bytes": 100_000}


@pytest.mark.parametrize(
    ("ref", "status", "kind"),
    [
        ("sha256-" + "0" * 64, 404, "blob-missing"),
        ("sha256-x", 422, "invalid-input"),
        ("..%2Fbus.db", 404, "not-found"),
        ("%2e%2e%2fbus.db", 404, "not-found"),
        ("..%5Cbus.db", 422, "invalid-input"),
        ("bus.db", 422, "invalid-input"),
        ("sha256-" + "0" * 64 + "%00", 422, "invalid-input"),
        ("sha256-" + "0" * 64 + "%0A", 422, "invalid-input"),
    ],
)
def test_no_path_leads_out_of_the_store(
    one_client: httpx.Client, one_bus: Bus, ref: str, status: int, kind: str
) -> None:
    detail = problem(one_client.get(f"/v1/blobs/{ref}"), status, kind)
    assert one_bus.layout.directory not in detail


def test_altered_blob_is_not_sent(one_client: httpx.Client, one_bus: Bus) -> None:
    ref = one_client.post("/v1/blobs", content=b"right").json()["ref"]
    Path(one_bus.layout.blobs, ref).write_bytes(b"wrong")
    problem(one_client.get(f"/v1/blobs/{ref}"), 500, "blob-altered")


@pytest.mark.parametrize(
    ("wanted", "begin", "end"),
    [
        ("bytes=0-", 0, 3_000_000),
        ("bytes=7-1500000", 7, 1_500_001),
        ("bytes=2999999-9999999", 2_999_999, 3_000_000),
        ("bytes=-5", 2_999_995, 3_000_000),
        ("bytes=-9999999", 0, 3_000_000),
    ],
)
def test_download_goes_on_where_it_broke_off(
    one_client: httpx.Client, wanted: str, begin: int, end: int
) -> None:
    data = os.urandom(1000) * 3000
    path = f"/v1/blobs/{one_client.post('/v1/blobs', content=data).json()['ref']}"
    tag = one_client.head(path).headers["ETag"]
    came = one_client.get(path, headers={"Range": wanted, "If-Range": tag})
    assert (came.status_code, came.content) == (206, data[begin:end])
    assert came.headers["Content-Range"] == f"bytes {begin}-{end - 1}/3000000"
    assert came.headers["Content-Length"] == str(end - begin)
    other = one_client.get(path, headers={"Range": wanted, "If-Range": '"other"'})
    assert (other.status_code, other.content) == (200, data)


def test_part_that_can_not_be_had(one_client: httpx.Client, one_bus: Bus) -> None:
    ref = one_client.post("/v1/blobs", content=b"0123456789").json()["ref"]
    path = f"/v1/blobs/{ref}"
    for beyond in ("bytes=10-", "bytes=11-", "bytes=-0", "bytes=99-100"):
        refused = one_client.get(path, headers={"Range": beyond})
        assert "10 bytes" in problem(refused, 416, "range-not-satisfiable")
        assert refused.headers["Content-Range"] == "bytes */10"
    for other in ("bytes=0-1,3-4", "bytes=-", "bytes=5-2", "lines=1-2", "bytes=a-b"):
        assert one_client.get(path, headers={"Range": other}).status_code == 200
    Path(one_bus.layout.blobs, ref).write_bytes(b"0123456780")
    problem(one_client.get(path, headers={"Range": "bytes=0-1"}), 500, "blob-altered")


def test_client_that_has_a_blob_is_not_sent_it_again(one_client: httpx.Client) -> None:
    path = f"/v1/blobs/{one_client.post('/v1/blobs', content=b'mine').json()['ref']}"
    tag = one_client.get(path).headers["ETag"]
    again = one_client.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert one_client.get(path, headers={"If-None-Match": '"other"'}).content == b"mine"


def test_upload_that_breaks_off_leaves_nothing(one_client: httpx.Client, one_bus: Bus) -> None:
    before = temporary(one_bus)
    url = one_client.base_url
    with socket.create_connection((url.host, url.port)) as client:
        head = f"POST /v1/blobs HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 1000000\r\n\r\n"
        client.sendall(head.encode() + b"x" * 200_000)
        wait_until(lambda: temporary(one_bus) != before)
    wait_until(lambda: temporary(one_bus) == before)


@pytest.mark.parametrize("path", ["/v1/blobs", "/v1/messages", "/mcp"])
def test_client_that_goes_while_it_sends_is_no_defect(
    bus: Bus, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Else each upload that breaks off would be a traceback in the server's output."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Host": "127.0.0.1",
        "MCP-Protocol-Version": "2026-07-28",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    received = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive() -> Message:
        return next(received, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        pass

    async def run() -> None:
        app = create_app(bus, BusAccess(bus))
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)

    asyncio.run(run())
    assert caplog.records == []
    assert temporary(bus) == []


@pytest.mark.slow
def test_uploads_that_are_slow_do_not_keep_downloads_out(client: httpx.Client, bus: Bus) -> None:
    """Each may take 30 s for a MiB, and there are places for eight."""
    path = f"/v1/blobs/{bus.blobs.put(b'mine')}"
    url = client.base_url
    head = f"POST /v1/blobs HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 100\r\n\r\n"
    before = temporary(bus)
    with ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(socket.create_connection((url.host, url.port)))
            slow.sendall(head.encode() + b"x")
        wait_until(lambda: len(temporary(bus)) == len(before) + 8)
        assert client.get(path).content == b"mine"


def test_upload_over_the_limit_is_refused_before_it_is_read(one_client: httpx.Client) -> None:
    url = one_client.base_url
    with socket.create_connection((url.host, url.port)) as client:
        head = f"POST /v1/blobs HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: {2**40}\r\n\r\n"
        client.sendall(head.encode() + b"x")
        assert b" 413 " in client.recv(1000).split(b"\r\n")[0]


@pytest.mark.slow
def test_upload_that_turns_out_too_long_is_refused(serve: Serve, bus: Bus) -> None:
    client = serve("--max-blob", "1")
    pieces = (b"x" * 100_000 for _ in range(30))
    refused = client.post("/v1/blobs", content=pieces)
    assert "at most 1048576 bytes" in problem(refused, 413, "content-too-large")
    assert temporary(bus) == []


def test_message_over_the_limit_is_refused(one_client: httpx.Client, one_bus: Bus) -> None:
    newest = one_bus.log.newest_seq()
    body = b'{"type": "t", "from": "a", "payload": "' + b"x" * 18_000_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    response = one_client.post("/v1/messages", content=body, headers=headers)
    problem(response, 413, "content-too-large")
    assert one_bus.log.newest_seq() == newest


def test_download_ends_with_its_client(bus: Bus) -> None:
    """The server below us takes what is sent to nobody, without a word."""
    ref = bus.blobs.put(io.BytesIO(bytes(50_000_000)))
    response = BlobResponse(bus.blobs, ref, 50_000_000)
    sent: list[Message] = []
    app = FastAPI()
    app.state.patience, app.state.hang_up = ClientTimeouts(), lambda client: None
    app.state.downloads = None

    async def receive() -> Message:
        while len(sent) < 2:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(response({"type": "http", "app": app, "client": None}, receive, send))
    assert 2 <= len(sent) < 10
