"""Clients of WebSocket streams that are slow, that stall, and that go."""

import asyncio
import json
import socket
import struct
import subprocess
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from ackbus import Bus, Draft
from ackbus.bus import Wanted

from .conftest import BUS

# Not by `import … as`: in the room the name of the module is that of its router.
sockets = import_module("ackbus.server.live.sockets")


def sent_to_a_client(monkeypatch: pytest.MonkeyPatch, *takes_s: float) -> tuple[int, int]:
    """Sends a batch to a client that takes so long for each; returns how many went, and the code.

    It may leave what it was sent unread for 0.2 s.
    """
    monkeypatch.setattr(sockets, "STALLED_S", 0.2)
    waits, sent = iter(takes_s), 0

    async def send_text(_: str) -> None:
        nonlocal sent
        await asyncio.sleep(next(waits))
        sent += 1

    async def stream(*_: Any, **__: Any) -> AsyncIterator[list[Any]]:
        yield [SimpleNamespace(line=b"{}")] * len(takes_s)

    feed = SimpleNamespace(stream=stream)
    app = SimpleNamespace(state=SimpleNamespace(feed=feed))
    client = SimpleNamespace(send_text=send_text, app=app)
    code, _ = asyncio.run(sockets._send_all(client, 0, Wanted()))
    return sent, code


def test_client_that_is_slow_and_reads_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent_to_a_client(monkeypatch, *[0.05] * 8) == (8, 1001)


def test_client_that_stalls_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent_to_a_client(monkeypatch, 0, 60, 0) == (1, 1013)


def test_client_that_goes_while_it_is_written_to_is_no_error(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """Neither a traceback, nor a word, in what the server prints."""
    bus.publish_many([Draft("t", "x" * 4000, from_agent="a")] * 3000)
    command = [str(BUS), "serve", "--json", "--port", "0", "--dir", str(bus_dir)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=bus_env, text=True) as server:
        assert server.stdout is not None
        url = urlsplit(json.loads(server.stdout.readline())["url"])
        for _ in range(3):
            with socket.create_connection((url.hostname, url.port), timeout=20) as client:
                client.sendall(
                    b"GET /v1/ws?after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                )
                assert client.recv(20_000, socket.MSG_WAITALL)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.terminate()
        _, errors = server.communicate(timeout=20)
    assert errors == ""
