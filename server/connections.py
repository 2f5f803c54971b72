"""Sockets that applications listen on, and the servers that serve them."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..schema.errors import AckbusError, InvalidInput
from .problems import TOO_LARGE, refusal

# The timeouts of clients.


@dataclass(frozen=True)
class ClientTimeouts:
    """The timeouts of clients.

    Attributes:
        stalled_s: how long a client may take for the next MiB of a body or a blob, or for what a
            stream sent it, before it is dropped, in seconds. What a stream sent is at most a batch
            and what the system buffers.
        head_s: how long it may take for the head of a request, from the one before or from its
            connection on, in seconds.
        keep_alive_s: how often it hears that a stream is alive, when nothing comes, in seconds.
    """

    stalled_s: float = 30.0
    head_s: float = 30.0
    keep_alive_s: float = 15.0


# The end of a request: where two parsers could disagree about it, the request is refused.
#
# A proxy and this server that disagree about the end of a request allow request smuggling: the
# rest passes as a request that the proxy has not checked. So each request must say once, and in
# one way, how long it is. h11 refuses malformed chunks and lengths; here is what it lets pass.
#
# Bodies in very many tiny chunks are refused too: each chunk takes as long as a large one, and
# all clients wait meanwhile. A body of 17 MiB in chunks of a byte would take minutes.

#: The end of the head of a request, as h11 finds it.
_END_OF_HEAD = re.compile(rb"\n\r?\n")

#: A line of the head that goes on with the one before; older readers take it for one of its own.
_FOLDED = re.compile(rb"\n[ \t]")

#: The end of a line without a carriage return, and one within a line.
_ODD_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")

#: A length, and a coding, by their names at the beginning of a line.
_LENGTHS = re.compile(rb"\n(?i:content-length)[ \t]*:([^\n]*)")
_CODINGS = re.compile(rb"\n(?i:transfer-encoding)[ \t]*:")


#: How many chunks a body may have, of any size, and how many bytes each of more has on average.
_CHUNKS, _CHUNK_BYTES = 4096, 64


class StrictConnection(h11.Connection):
    """A connection that refuses requests whose length is given twice, or ambiguously."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._chunks = self._bytes = 0

    def next_event(self) -> Any:
        """Return the next event, as h11 does.

        Raises:
            h11.RemoteProtocolError: the request is refused.
        """
        waiting = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            end = _END_OF_HEAD.search(waiting)
            _check(waiting[: end.end()] if end else waiting, event)
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._count(event)
        return event

    def _count(self, data: h11.Data) -> None:
        self._chunks += data.chunk_start
        self._bytes += len(data.data)
        if self._chunks > _CHUNKS and self._bytes < self._chunks * _CHUNK_BYTES:
            raise h11.RemoteProtocolError("too many tiny chunks")


def _check(head: bytes, request: h11.Request) -> None:
    lengths, codings = _LENGTHS.findall(head), _CODINGS.findall(head)
    if lengths and codings:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise h11.RemoteProtocolError("more than one Content-Length")
    if codings and request.http_version < b"1.1":
        raise h11.RemoteProtocolError("Transfer-Encoding before HTTP/1.1")
    if _FOLDED.search(head) or _ODD_END.search(head):
        raise h11.RemoteProtocolError("a folded line, or one that ends oddly")


class FramedProtocol(H11Protocol):
    """A connection of a server that answers a malformed request with 400, and then closes.

    It is h11's, whatever else is installed: all servers read requests in the same way.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        most = self.config.h11_max_incomplete_event_size
        self.conn = StrictConnection(h11.SERVER, *([] if most is None else [most]))

    def send_400_response(self, msg: str) -> None:
        """Refuse what came, and close; an answer that has begun already is cut off."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # it must not answer after this
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()


# A limit on the length of request bodies, before they are read or while they are.

#: The most that a body may have, but for those of blobs: a payload's 16 MiB, and what is around it.
MAX_BODY_BYTES = 17 * 1024 * 1024
#: The most that a blob may have, unless the options say so: 4 GiB.
MAX_BLOB_BYTES = 4 * 1024**3

#: Where blobs are stored.
_BLOBS = "/v1/blobs"


class BodyLimit:
    """Middleware that refuses bodies beyond the limit.

    Args:
        app: the application behind it.
        max_blob_bytes: the longest blob.
    """

    def __init__(self, app: ASGIApp, max_blob_bytes: int) -> None:
        self._app = app
        self._max_blob_bytes = max_blob_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._max_blob_bytes if scope["path"] == _BLOBS else MAX_BODY_BYTES
        length = Headers(scope=scope).get("Content-Length", "")
        if length.isdecimal() and int(length) > limit:
            detail = f"{scope['method']} {scope['path']}: at most {limit} bytes, not {length}"
            refused = refusal(HTTPConnection(scope), 413, TOO_LARGE, detail)
            await refused(scope, receive, send)
            return
        await self._app(scope, _bounded(receive, limit), send)


def _bounded(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that refuses a body of unknown length beyond a limit."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            too_long = InvalidInput(f"at most {limit} bytes")
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE) from too_long
        return message

    return bounded


#: How long running requests may take to end when the server stops, in seconds.
_LAST_S = 3

#: The time between two looks at the connections, in seconds.
_TICK_S = 1.0

#: The system's buffer for a client that reads slowly, in bytes; its default is megabytes.
_SENT_BYTES = 128 * 1024
#: The longest message that a WebSocket takes in, in bytes: none is asked for.
_HEARD_BYTES = 64 * 1024

#: How many connections one turn of the loop accepts. Each has a descriptor before it can be counted
#: and dropped, and a turn that runs out of them writes a traceback for each.
_ACCEPTED = 32
#: How many may wait for that.
_BACKLOG = 2048
#: The most connections of a server, and which part of the descriptors of the process: a service has
#: two servers, and its jobs need some too.
_MOST_CONNECTIONS, _PART = 8192, 3

#: Stands for the last request on a connection that is no longer one of requests: a WebSocket.
_ANOTHER_PROTOCOL = object()


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; the port 0 takes a free one.

    Raises:
        AckbusError: the address can't be had.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Connections inherit it. asyncio sets it only where the socket says that it speaks TCP,
        # which one of create_server doesn't: then the second half of each response waits 40 ms for
        # the client's acknowledgement of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        # Python writes the address into the reason, but for that of a name.
        why = (
            error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        )
        raise AckbusError(f"can't listen on {host}:{port}: {why}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)  # what it accepts has it
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of what is served on a socket."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def most_connections() -> int:
    """Return how many connections a server of this process keeps; others are dropped at once."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    is_endless = limit == resource.RLIM_INFINITY
    return _MOST_CONNECTIONS if is_endless else min(_MOST_CONNECTIONS, limit // _PART)


class _Connection(FramedProtocol):
    """A connection, which is dropped without a word where there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()


def server_config(app: ASGIApp, patience: ClientTimeouts) -> uvicorn.Config:
    """Return the settings of a server, the same for every application."""
    return uvicorn.Config(
        app,
        http=_Connection,
        backlog=_ACCEPTED,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # a client is known by its connection, whatever it says of itself
        timeout_graceful_shutdown=_LAST_S + 1,
        ws_max_size=_HEARD_BYTES,
        ws_per_message_deflate=False,  # compressing for each client would be most of the work
        ws_ping_interval=patience.keep_alive_s,
        ws_ping_timeout=2 * patience.stalled_s,  # a client that stalls is dropped with a reason
    )


class Server(uvicorn.Server):
    """A uvicorn server that calls back when it is ready, and when it is told to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], object],
        on_stop: Callable[[], object],
        patience: ClientTimeouts,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._patience = patience
        #: Connections without a request, each with its last one, and since when.
        self._waiting: dict[Any, tuple[object, float]] = {}
        self._wake: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # asyncio takes what it accepts in a turn for the backlog too
        if self.started:
            self._on_ready()

    async def main_loop(self) -> None:
        """Tick once a second until the end; uvicorn's ten are most of an idle service's work."""
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        self._wake = partial(loop.call_soon_threadsafe, is_over.set)
        try:
            while not await self.on_tick(0):
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), _TICK_S)
        finally:
            self._wake = lambda: None

    async def on_tick(self, counter: int) -> bool:
        """Do what is due from time to time, and tell whether to stop."""
        self._drop_silent()
        return await super().on_tick(counter)

    def stop(self) -> None:
        """Begin to stop, from any thread or a signal handler."""
        self.should_exit = True
        self._wake()

    def _drop_silent(self) -> None:
        """End connections on which no request has begun for long: uvicorn waits for ever."""
        before, self._waiting, now = self._waiting, {}, time.monotonic()
        for connection in tuple(self.server_state.connections):
            last = getattr(connection, "cycle", _ANOTHER_PROTOCOL)
            if last is not None and not getattr(last, "response_complete", False):
                continue
            cycle, since = before.get(connection, (last, now))
            self._waiting[connection] = (last, since if cycle is last else now)
            if now - self._waiting[connection][1] > self._patience.head_s and connection.transport:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and call back."""
        super().handle_exit(sig, frame)
        self._wake()
        self._on_stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections, those too whose clients read nothing."""
        # Before uvicorn cancels what still runs, loudly: a client that reads nothing keeps its
        # stream from ending.
        asyncio.get_running_loop().call_later(_LAST_S, self._hang_up_all)
        await super().shutdown(sockets)

    def _hang_up_all(self) -> None:
        for connection in tuple(self.server_state.connections):
            if connection.transport:
                connection.transport.abort()

    def hang_up(self, client: tuple[str, int] | None) -> None:
        """End the connection of a client at once, and discard its unread data."""
        for connection in self.server_state.connections:
            if getattr(connection, "client", None) == client and connection.transport:
                connection.transport.abort()
