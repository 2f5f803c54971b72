"""Streams to clients that are slow, silent, rude, or many: real sockets, and a short patience."""

import contextlib
import io
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ackbus import Bus, Draft
from ackbus.server.connections import listen_on

from ..conftest import wait_until

#: A server that is as patient as one needs for a test.
SERVER = """
import json, sys
from ackbus import Bus
from ackbus.server.running import Options, serve
from ackbus.server.connections import ClientTimeouts
with Bus.open(sys.argv[1]) as bus:
    patience = ClientTimeouts(stalled_s=float(sys.argv[2]), keep_alive_s=0.2)
    options = Options("127.0.0.1", 0, patience=patience)
    serve(bus, options, on_ready=lambda url: print(url, flush=True))
"""
#: More than the system buffers for a client, and the server with it.
MUCH = 4000


class Server:
    """A server process: its URL, and what it writes to stderr."""

    def __init__(self, directory: Path, stalled_s: float = 1.0) -> None:
        self.directory = directory
        self._errors = directory.parent / "errors"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, directory, str(stalled_s)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2])

    @property
    def errors(self) -> str:
        return self._errors.read_text("utf-8")

    def reads(self, file: Path) -> bool:
        """Whether the process has a file open."""
        found = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return any(os.path.realpath(each) == str(file) for each in found)

    def metric(self, name: str) -> float:
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return 0.0 if found is None else float(found[1])

    def ask(self, path: str, *headers: str) -> socket.socket:
        """A client with a small buffer that has asked for a stream, and read nothing."""
        client = small_client(("127.0.0.1", self.port))
        head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers])
        client.sendall(f"{head}\r\n\r\n".encode())
        return client


def small_client(address: tuple[str, int]) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.settimeout(60)
    client.connect(address)
    return client


def more_than_the_system_holds() -> int:
    """Many times the bytes that the system takes from a server for a client that reads none."""
    with listen_on("127.0.0.1", 0) as listener, small_client(listener.getsockname()):
        sender, _ = listener.accept()
        held = 0
        with sender, selectors.DefaultSelector() as waiting:
            sender.setblocking(False)
            waiting.register(sender, selectors.EVENT_WRITE)
            while waiting.select(0.5):
                held += sender.send(bytes(65536))
    return 8 * held + 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("slow") / "bus"
    with Bus.init(directory) as bus:
        bus.publish_many([Draft("t", f"{n} {'x' * 500}", from_agent="a") for n in range(MUCH)])
    server = Server(directory)
    with server.process:
        yield server
        server.process.terminate()
        assert server.process.wait(60) == 0


def seqs(text: bytes) -> list[int]:
    return [int(seq) for seq in re.findall(rb"^id: (\d+)$", text, re.M)]


@pytest.mark.slow
def test_client_that_never_reads_is_dropped_and_can_go_on(server: Server) -> None:
    """U-25: what it has is whole, and it asks for the rest with the last id."""
    dropped = server.metric('ackbus_stream_dropped_total{kind="sse"}')
    with closing(server.ask("/v1/events?after=0")) as client:
        wait_until(lambda: server.metric('ackbus_stream_dropped_total{kind="sse"}') > dropped)
        wait_until(lambda: server.metric('ackbus_stream_clients{kind="sse"}') == 0)
        has = bytearray()
        while data := client.recv(65536):
            has += data
    assert not has.endswith(b"0\r\n\r\n")  # or its stream would seem to have ended well
    whole = seqs(bytes(has).rpartition(b"\n\n")[0])
    assert whole == list(range(1, len(whole) + 1))
    assert 0 < len(whole) < MUCH
    follow = {"headers": {"Last-Event-ID": str(len(whole))}, "timeout": 60}
    with httpx.stream("GET", f"{server.url}/v1/events", **follow) as response:
        rest = b""
        for chunk in response.iter_raw():
            rest += chunk
            if seqs(rest)[-1:] == [MUCH]:
                break
    assert seqs(rest) == list(range(len(whole) + 1, MUCH + 1))
    why = r"127\.0\.0\.1 port \d+: what was sent was not read within 1 s; go on from your cursor$"
    assert re.search(f"dropped {why}", server.errors, re.MULTILINE)
    assert "ASGI" not in server.errors


@pytest.mark.slow
def test_client_that_gives_another_address_as_its_own_is_cut_off_too(server: Server) -> None:
    """It could keep its connection for ever, and so the descriptors of the server."""
    clients = 'ackbus_stream_clients{kind="sse"}'
    wait_until(lambda: server.metric(clients) == 0)
    before = server.metric("process_open_fds")
    with ExitStack() as stack:
        for _ in range(60):
            lying = server.ask("/v1/events?after=0", "X-Forwarded-For: 192.0.2.1")
            stack.enter_context(closing(lying))
        wait_until(lambda: server.metric(clients) > 0)
        wait_until(lambda: server.metric(clients) == 0)
        # Threads that answer requests may have opened the bus meanwhile.
        wait_until(lambda: server.metric("process_open_fds") < before + 60)
    assert "ASGI" not in server.errors


@pytest.mark.slow
def test_websocket_that_stalls_is_told_why_it_is_dropped(server: Server) -> None:
    dropped = server.metric('ackbus_stream_dropped_total{kind="websocket"}')
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    raw.connect(("127.0.0.1", server.port))
    url = f"ws://localhost:{server.port}/v1/ws?after=0"
    found = []
    with connect(url, sock=raw, max_queue=1, close_timeout=1, ping_interval=None) as client:
        wait_until(lambda: server.metric('ackbus_stream_dropped_total{kind="websocket"}') > dropped)
        try:
            while True:
                found.append(json.loads(client.recv(timeout=60))["seq"])
        except ConnectionClosed as closed:
            last_words = closed.rcvd
    assert found == list(range(1, len(found) + 1))
    assert last_words is not None
    assert last_words.code == 1013
    assert "go on from your cursor" in last_words.reason


def test_client_that_reads_slowly_and_steadily_gets_everything(server: Server) -> None:
    """It is never close to the end, so it lives from the log."""
    with closing(server.ask("/v1/events?after=0")) as client, Bus.open(server.directory) as bus:
        last = bus.log.newest_seq() + 200
        publisher = threading.Thread(
            target=lambda: [bus.publish("t", "y" * 500, from_agent="a") for _ in range(200)]
        )
        publisher.start()
        has = bytearray()
        while f"id: {last}\n".encode() not in has[-100_000:]:
            has += client.recv(16384)
            time.sleep(0.002)  # the reading that is slow, not a wait
        publisher.join()
    whole = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", bytes(has))
    assert seqs(whole) == list(range(1, last + 1))


@pytest.mark.slow
def test_server_stops_in_peace_though_a_client_reads_nothing(tmp_path: Path) -> None:
    with Bus.init(tmp_path / "bus") as bus:
        bus.publish_many([Draft("t", "x" * 500, from_agent="a") for _ in range(MUCH)])
    server = Server(tmp_path / "bus", stalled_s=60.0)
    with server.process, closing(server.ask("/v1/events?after=0")):
        wait_until(lambda: server.metric('ackbus_stream_events_total{kind="sse"}') > 0)
        server.process.terminate()
        assert server.process.wait(60) == 0
    assert server.errors == ""


def test_quiet_stream_says_that_it_is_alive(server: Server) -> None:
    with httpx.stream("GET", f"{server.url}/v1/events", timeout=60) as response:
        lines = (line for line in response.iter_lines() if line.startswith(":"))
        assert [next(lines), next(lines)] == [": nothing new", ": nothing new"]


def test_stream_that_wants_none_of_what_comes_says_that_it_is_alive(server: Server) -> None:
    """Unwanted messages don't count as a sign of life of the stream."""
    is_over = threading.Event()

    def publish() -> None:
        with Bus.open(server.directory) as bus:
            while not is_over.wait(0.02):
                bus.publish("other", from_agent="a")

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        with httpx.stream("GET", f"{server.url}/v1/events?type=none", timeout=60) as response:
            lines = (line for line in response.iter_lines() if line.startswith(":"))
            assert [next(lines), next(lines)] == [": nothing new", ": nothing new"]
    finally:
        is_over.set()
        publisher.join()


@pytest.mark.slow
def test_fifty_clients_get_everything_in_order_from_a_publisher_in_a_hurry(server: Server) -> None:
    """Issue 7, must reach: the short form of bench/live.py."""
    with Bus.open(server.directory) as bus, selectors.DefaultSelector() as waiting:
        first = bus.log.newest_seq() + 1
        last = first + 2999
        texts = [bytearray() for _ in range(50)]
        for text in texts:
            client = server.ask(f"/v1/events?after={first - 1}")
            waiting.register(client, selectors.EVENT_READ, text)

        def publish() -> None:
            for _ in range(30):
                bus.publish_many([Draft("t", n, from_agent="a") for n in range(100)])

        publisher = threading.Thread(target=publish)
        publisher.start()
        while waiting.get_map():
            for key, _ in waiting.select(20):
                key.data.extend(key.fileobj.recv(65536))  # type: ignore[union-attr]
                if f"id: {last}\n".encode() in key.data[-80_000:]:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
        publisher.join()
    for text in texts:
        whole = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", bytes(text))
        assert seqs(whole) == list(range(first, last + 1))


@pytest.mark.slow
def test_nothing_is_left_of_clients_that_come_and_go(server: Server) -> None:
    clients = 'ackbus_stream_clients{kind="sse"}'
    server.metric(clients)
    before = server.metric("process_open_fds")
    for _ in range(3):
        came = [server.ask("/v1/events") for _ in range(60)]
        wait_until(lambda: server.metric(clients) == 60)
        for client in came:
            client.close()
        wait_until(lambda: server.metric(clients) == 0)
    # Threads that answer requests may have opened the bus meanwhile.
    wait_until(lambda: server.metric("process_open_fds") < before + 60)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x81\xfe\xff\xff" + bytes(70_000),
        b"\x81\x81" + bytes(4) + b"\xff",
    ],
    ids=["no frame", "http", "too long", "no UTF-8"],
)
def test_websocket_that_sends_rubbish_ends_and_nothing_else(server: Server, rubbish: bytes) -> None:
    clients = 'ackbus_stream_clients{kind="websocket"}'
    with Bus.open(server.directory) as bus:
        newest = bus.log.newest_seq()
        with closing(socket.create_connection(("127.0.0.1", server.port), 20)) as client:
            client.sendall(
                b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            assert client.recv(65536).startswith(b"HTTP/1.1 101 ")
            wait_until(lambda: server.metric(clients) == 1)
            client.sendall(rubbish)
            wait_until(lambda: server.metric(clients) == 0)
        assert bus.log.newest_seq() == newest
    assert httpx.get(f"{server.url}/healthz").json()["ok"]
    assert "Traceback" not in server.errors


def test_transfers_of_blobs_that_stand_still_are_cut_off_in_peace(server: Server) -> None:
    """They have places of which there are few; and that a client stalls is no defect."""
    size = more_than_the_system_holds()
    with Bus.open(server.directory) as bus:
        ref = bus.blobs.put(io.BytesIO(bytes(size)))
    blob = Path(server.directory, "blobs", ref).resolve()
    with closing(server.ask(f"/v1/blobs/{ref}")) as client:
        assert client.recv(1, socket.MSG_PEEK)  # from the answer's first byte on, it reads the blob
        wait_until(lambda: not server.reads(blob))
        got = 0
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(65536):
                got += len(piece)
        assert 0 < got < size
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        head = b"POST /v1/blobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        client.sendall(head + b"the beginning")
        assert b" 408 " in client.recv(1000).split(b"\r\n")[0]
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("path", ["/v1/blobs", "/v1/messages"])
def test_body_that_drips_is_cut_off(server: Server, path: str) -> None:
    """Eight such uploads would have all places, for as long as they like."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        kind = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000"
        client.sendall(f"POST {path} HTTP/1.1\r\n{kind}\r\n\r\n".encode())
        client.setblocking(False)
        answer = b""
        for _ in range(200):  # 20 s, if it is let
            with contextlib.suppress(BlockingIOError):
                answer = client.recv(1000)
                break
            with contextlib.suppress(ConnectionError):
                client.send(b"x")
            time.sleep(0.1)
        assert b" 408 " in answer.split(b"\r\n")[0]
    assert "Traceback" not in server.errors
