"""Running the server until it is told to stop."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from ipaddress import ip_address

from prometheus_client import disable_created_metrics

from ..bus.bus import Bus
from ..schema.errors import (
    AnsweredAgainWarning,
    NotActedUponWarning,
    Refused,
    UnknownRecipientWarning,
)
from ..schema.processes import raise_open_files
from ..schema.stop_limit import obeyed
from ..subscribers.jobs.errors import UnservedRequestWarning
from .access.access import Access
from .access.origins import LOOPBACK_NAMES, check_origin
from .access.tokens import Tokens
from .app import create_app, end_streams
from .body_limit import MAX_BLOB_BYTES
from .client_timeouts import Patience
from .listening import Server, listen_on, server_config, url_of


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
        pushpals: whether to answer in PushPals' forms too.
        is_open: whether these need no token.
    """

    host: str
    port: int
    max_rate: float | None = None
    origins: Collection[str] = ()
    max_blob_bytes: int = MAX_BLOB_BYTES
    patience: Patience = field(default_factory=Patience)
    pushpals: bool = False
    is_open: bool = False

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
    pushpals = _access_of_pushpals(bus, options) if options.pushpals else None
    # The answer to the publisher says it; the server's own output need not.
    warnings.simplefilter("ignore", AnsweredAgainWarning)
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", NotActedUponWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    raise_open_files()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # else each counter has a second one, of when it began
    logging.getLogger("uvicorn.error").addFilter(_is_of_server)
    app = create_app(
        bus,
        Access(bus, required=is_public, max_rate=options.max_rate),
        hosts=None if is_public else {*LOOPBACK_NAMES, options.host},
        origins=options.origins,
        max_blob_bytes=options.max_blob_bytes,
        patience=options.patience,
        pushpals=pushpals,
    )
    with listen_on(options.host, options.port) as listener:
        config = server_config(app, options.patience)
        url = url_of(options.host, listener)
        server = Server(config, lambda: on_ready(url), lambda: end_streams(app), options.patience)
        app.state.hang_up = server.hang_up
        # uvicorn raises them again at its end.
        with obeyed(lambda number, frame: server.stop(), signal.SIGINT, signal.SIGTERM):
            server.run(sockets=[listener])


def _access_of_pushpals(bus: Bus, options: Options) -> Access:
    """Return what authenticates requests in PushPals' forms: none is open unless somebody says so.

    Raises:
        Refused: there is no token, and nobody says so; or other machines can reach the address.
    """
    if options.is_open and not options.is_of_this_machine:
        raise Refused(f"others can reach {options.host}: --open is for this machine alone")
    if not options.is_open and not Tokens.of(bus).are_needed():
        raise Refused("--pushpals needs a token, 'bus token create'; or --open, on this machine")
    return Access(bus, required=not options.is_open, max_rate=options.max_rate)


def _is_of_server(record: logging.LogRecord) -> bool:
    """Whether a log record is about the server, not a traceback about a client's data."""
    return record.msg != "Invalid UTF-8 sequence received from client."
