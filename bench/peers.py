"""What the bus is compared with: the servers, and how each peer stores a text.

Every peer is opened as its own documents advise for speed, and made as durable as the bus is.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from measure import tell
from redis.utils import HIREDIS_AVAILABLE

#: Stores texts, each for good before the next.
Publish = Callable[[Sequence[str]], None]

#: What survives when a call has returned, for the record.
DURABILITY = {
    "NORMAL": {
        "ackbus": "durability='normal': survives a crash of any process, not a power loss;"
        " a payload over 4,096 bytes is synced to disk as a blob first",
        "bare INSERT": "WAL, synchronous=NORMAL: the same; large payloads stay in the row",
        "redis": "no AOF: nothing is on disk, and a crash of the server loses all",
        "litequeue": "WAL, synchronous=NORMAL, its default: as the bus",
        "simplebroker": "WAL, synchronous=NORMAL (its default is FULL): as the bus",
        "persist-queue": "WAL, synchronous=NORMAL (its default is FULL): as the bus",
        "huey": "WAL, synchronous=NORMAL (its default is FULL): as the bus",
        "nats": "file storage, synced by the server in its own time: at most as the bus",
    },
    "FULL": {
        "ackbus": "durability='full': survives a power loss",
        "bare INSERT": "WAL, synchronous=FULL: the same",
        "redis": "appendfsync=always: the same",
        "litequeue": "WAL, synchronous=FULL: the same",
        "simplebroker": "WAL, synchronous=FULL: the same",
        "persist-queue": "WAL, synchronous=FULL: the same",
        "huey": "WAL, synchronous=FULL: the same",
    },
}


@contextmanager
def redis_server(folder: Path, *, always_sync: bool = False) -> Iterator[str | None]:
    """Run a server; gives the path of its socket, or None where there is no server.

    A Unix socket is what its documents advise on one machine. The server keeps nothing on disk, or
    else syncs its append-only file before each answer.
    """
    own = folder / f"redis-{'synced' if always_sync else 'in-memory'}"
    address = str(own / "socket")
    options = ["--port", "0", "--unixsocket", address, "--dir", str(own), "--save", ""]
    log = ["--appendonly", "yes" if always_sync else "no", "--appendfsync", "always"]
    with _server("redis-server", [*options, *log], own, address) as runs:
        yield address if runs else None


def redis_client(address: str) -> redis.Redis:
    """Return a client that has the parser in C, which its documents advise for speed."""
    if not HIREDIS_AVAILABLE:
        raise SystemExit("hiredis is missing: `pip install '.[bench]'`")
    return redis.Redis(unix_socket_path=address, socket_timeout=None)


@contextmanager
def nats_server(folder: Path) -> Iterator[int | None]:
    """Run a server with JetStream; gives its port, or None where there is none."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = folder / "nats"
    options = ["--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(own)]
    with _server("nats-server", options, own, ("127.0.0.1", port)) as runs:
        yield port if runs else None


@contextmanager
def _server(
    name: str, options: list[str], own: Path, address: str | tuple[str, int]
) -> Iterator[bool]:
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        tell(f"no {name} on PATH: it is left out")
        yield False
        return
    own.mkdir()
    command = [program, *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(address)
        yield True
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str | tuple[str, int]) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.socket(family) as client:
                client.connect(address)
            return
        except (ConnectionRefusedError, FileNotFoundError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def to_litequeue(folder: Path, synchronous: str) -> Publish:
    """What litequeue calls put."""
    from litequeue import LiteQueue

    queue = LiteQueue(str(folder / f"litequeue-{synchronous}.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return _one_by_one(queue.put)


def to_simplebroker(folder: Path, synchronous: str) -> Publish:
    """What simplebroker calls write, over a connection that it keeps."""
    from simplebroker import Queue, resolve_config

    config = resolve_config(override={"BROKER_SYNC_MODE": synchronous})
    path = str(folder / f"simplebroker-{synchronous}.db")
    return _one_by_one(Queue("bench", db_path=path, persistent=True, config=config).write)


def to_persist_queue(folder: Path, synchronous: str) -> Publish:
    """What persist-queue calls put."""
    from persistqueue import SQLiteQueue

    queue = SQLiteQueue(str(folder / f"persist-queue-{synchronous}"))
    queue._putter.execute(f"PRAGMA synchronous = {synchronous}")  # it has no option for this
    return _one_by_one(queue.put)


def to_huey(folder: Path, synchronous: str) -> Publish:
    """What huey's SQLite storage does with a task, without making one."""
    from huey.storage import SqliteStorage

    storage = SqliteStorage("bench", str(folder / f"huey-{synchronous}.db"))
    storage.conn.execute(f"PRAGMA synchronous = {synchronous}")
    return _one_by_one(lambda text: storage.enqueue(text.encode()))


def to_redis(address: str) -> Publish:
    """XADD, one round trip each."""
    client = redis_client(address)
    return _one_by_one(lambda text: client.xadd("bench", {"body": text}))


def to_nats(stack: ExitStack, port: int) -> Publish:
    """A JetStream publish, each acknowledged before the next."""
    import nats

    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    connection = loop.run_until_complete(nats.connect(f"nats://127.0.0.1:{port}"))
    stack.callback(lambda: loop.run_until_complete(connection.close()))
    stream = connection.jetstream()
    loop.run_until_complete(stream.add_stream(name="bench", subjects=["bench"]))

    async def publish(texts: Sequence[str]) -> None:
        for text in texts:
            await stream.publish("bench", text.encode())

    return lambda texts: loop.run_until_complete(publish(texts))


def publishers(stack: ExitStack, folder: Path, synchronous: str) -> dict[str, Publish]:
    """Return every peer that there is, as durable as SQLite with that pragma."""
    found = {
        "litequeue": to_litequeue(folder, synchronous),
        "simplebroker": to_simplebroker(folder, synchronous),
        "persist-queue": to_persist_queue(folder, synchronous),
        "huey": to_huey(folder, synchronous),
    }
    always_sync = synchronous == "FULL"
    address = stack.enter_context(redis_server(folder, always_sync=always_sync))
    if address is not None:
        found["redis"] = to_redis(address)
    if not always_sync:  # the server of Debian's package can't sync before it answers
        nats_port = stack.enter_context(nats_server(folder))
        if nats_port is not None:
            found["nats"] = to_nats(stack, nats_port)
    return found


def _one_by_one(store: Callable[[str], object]) -> Publish:
    def publish(texts: Sequence[str]) -> None:
        for text in texts:
            store(text)

    return publish
