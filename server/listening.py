"""Sockets that applications listen on, and the servers that serve them."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ..schema.errors import AckbusError
from .client_timeouts import Patience
from .request_framing import FramedProtocol

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


def server_config(app: ASGIApp, patience: Patience) -> uvicorn.Config:
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
        patience: Patience,
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
            found, since = before.get(connection, (last, now))
            self._waiting[connection] = (last, since if found is last else now)
            if now - self._waiting[connection][1] > self._patience.head_s and connection.transport:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and let those who wait know."""
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
