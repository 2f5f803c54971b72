"""Receivers of what is forwarded: real servers on this machine, each with a script of answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

#: A key of 24 bytes.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True)
class Posted:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return orjson.loads(self.body)

    @property
    def data(self) -> Any:
        return self.event.get("data")


#: Answers a request: by bytes, which end the connection, or by itself, over the connection.
Answering = Callable[[Posted, int], bytes | Callable[[socket.socket], None]]


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


OK = answer(204)


@dataclass
class Receiver:
    """A receiver, with all requests that it has had."""

    url: str
    posted: list[Posted] = field(default_factory=list)
    connections: int = 0

    @property
    def data(self) -> list[Any]:
        return [each.data for each in self.posted]


@contextmanager
def receiving(
    answering: Answering = lambda posted, number: OK,
    *,
    wrap: Callable[[socket.socket], socket.socket] = lambda connection: connection,
) -> Iterator[Receiver]:
    """A receiver; `answering` is given each request and its number, from 0."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = Receiver(f"http://127.0.0.1:{listener.getsockname()[1]}/hook?token=hush")
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            receiver.connections += 1
            with suppress(OSError), wrap(connection) as connection:
                posted = _read(connection)
                number = len(receiver.posted)
                receiver.posted.append(posted)
                told = answering(posted, number)
                if callable(told):
                    told(connection)
                else:
                    connection.sendall(told)
                    connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield receiver
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)


def _read(connection: socket.socket) -> Posted:
    with connection.makefile("rb") as stream:
        line = stream.readline().decode().strip()
        headers = {}
        while text := stream.readline().decode().strip():
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        body = stream.read(length)
        if not headers or len(body) < length:
            raise ConnectionError("cut off")
        return Posted(line, headers, body)
