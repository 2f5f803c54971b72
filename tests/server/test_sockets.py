"""Clients of WebSocket streams that go."""

import json
import socket
import struct
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ackbus import Bus, Draft

from .conftest import BUS

pytestmark = pytest.mark.slow


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
            with socket.create_connection((url.hostname, url.port), timeout=60) as client:
                client.sendall(
                    b"GET /v1/ws?after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                )
                assert client.recv(20_000, socket.MSG_WAITALL)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.terminate()
        _, errors = server.communicate(timeout=60)
    assert errors == ""
