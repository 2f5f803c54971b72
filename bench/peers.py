"""The servers that the bus is compared with."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from measure import tell


@contextmanager
def redis_server(folder: Path) -> Iterator[int | None]:
    """Run a server that keeps nothing on disk; gives its port, or None where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        tell("no redis-server on PATH: Redis is left out")
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        program,
        "--port",
        str(port),
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port)
        deadline = time.monotonic() + 10
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        yield port
    finally:
        server.terminate()
        server.wait()
