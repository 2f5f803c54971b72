"""Running the server until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import FrameType

import uvicorn
from fastapi import FastAPI
from prometheus_client import disable_created_metrics

from ..bus.bus import Bus
from ..schema.errors import AckbusError, Refused, UnknownRecipientWarning
from ..subscribers.jobs.errors import UnservedRequestWarning
from .access.access import Access
from .access.origins import LOOPBACK_NAMES, check_origin
from .access.tokens import Tokens
from .app import create_app, end_streams
from .body_limit import MAX_BLOB_BYTES
from .client_timeouts import Patience

#: How long running requests may take to end when the server stops, in seconds.
_LAST_S = 3

#: The system's buffer for a client that reads slowly, in bytes; its default is megabytes.
_SENT_BYTES = 128 * 1024
#: The longest message that a WebSocket takes in, in bytes: none is asked for.
_HEARD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Options:
    """The options of a server.

    Attributes:
        host: the address to listen on.
        port: the port; 0 takes a free one.
        max_rate: requests a second that a principal may make; None: no limit.
        origins: the origins whose pages may send requests, besides the server's own.
        max_blob_bytes: the longest blob that a client may store.
        patience: the timeouts of clients.
    """

    host: str
    port: int
    max_rate: float | None = None
    origins: Collection[str] = ()
    max_blob_bytes: int = MAX_BLOB_BYTES
    patience: Patience = field(default_factory=Patience)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the address is reachable from this machine only."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def serve(
    bus: Bus, options: Options, *, on_ready: Callable[[str], object] = lambda url: None
) -> None:
    """Serve a bus until SIGINT or SIGTERM. Blocks; call it from the main thread.

    Args:
        bus: the bus to serve.
        options: the options of the server.
        on_ready: called with the URL as soon as requests are answered.

    Raises:
        InvalidInput: an origin is invalid.
        Refused: other machines can reach the address, and there is no token.
        AckbusError: the server can't listen on the address.
    """
    for origin in options.origins:
        check_origin(origin)
    is_public = not options.is_of_this_machine
    if is_public and not Tokens.of(bus).are_needed():
        raise Refused(f"others can reach {options.host}: make a token first, 'bus token create'")
    # The answer to the publisher says it; the server's own output need not.
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # else each counter has a second one, of when it began
    logging.getLogger("uvicorn.error").addFilter(_is_of_server)
    app = create_app(
        bus,
        Access(bus, required=is_public, max_rate=options.max_rate),
        hosts=None if is_public else {*LOOPBACK_NAMES, options.host},
        origins=options.origins,
        max_blob_bytes=options.max_blob_bytes,
        patience=options.patience,
    )
    with _listen(options.host, options.port) as listener:
        config = _config(app, options.patience)
        url = _url(options.host, listener)
        server = _Server(config, lambda: on_ready(url), lambda: end_streams(app))
        app.state.hang_up = server.hang_up
        with _stopped_by_signals(server):
            server.run(sockets=[listener])


def _config(app: FastAPI, patience: Patience) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # a client is known by its connection, whatever it says of itself
        timeout_graceful_shutdown=_LAST_S + 1,
        ws_max_size=_HEARD_BYTES,
        ws_per_message_deflate=False,  # compressing for each client would be most of the work
        ws_ping_interval=patience.keep_alive_s,
        ws_ping_timeout=2 * patience.stalled_s,  # a client that stalls is dropped with a reason
    )


def _is_of_server(record: logging.LogRecord) -> bool:
    """Whether a log record is about the server, not a traceback about a client's data."""
    return record.msg != "Invalid UTF-8 sequence received from client."


class _Server(uvicorn.Server):
    """A uvicorn server that calls back when it is ready, and when it is told to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], object],
        on_stop: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._on_stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Turn signals into requests to stop inside the block; uvicorn raises them again at its end."""

    def stop(*_: object) -> None:
        server.should_exit = True

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. asyncio sets it only where the socket says that it speaks TCP,
        # which one of create_server doesn't: then the second half of each response waits 40 ms for
        # the client's acknowledgement of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise AckbusError(f"can't listen on {host}:{port}: {error.strerror}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)  # what it accepts has it
    return listener


def _url(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"
