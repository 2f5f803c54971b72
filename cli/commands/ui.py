"""The page for people: ui."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ...bus.bus import Bus
from ...schema.errors import NotFound
from ...schema.processes import start_thread
from ..definition import Commands
from ..extras import require
from ..options.common import HERE, Place
from ..show import output
from .serve import HOST, PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread

commands = Commands()

#: The lifetime of the token in the page's link, in seconds: a working day.
_TOKEN_S = 12 * 3600.0
_TOKEN_NAME = "bus-ui"


@commands.command("ui", example="bus ui")
def ui(
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0: a free one.")
    ] = PORT,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and open no browser.")
    ] = False,
    place: Place = HERE,
) -> int:
    """Open the page of the bus in the browser.

    A running server of this bus on the port is used; else one is started, which runs until
    Ctrl-C. If the server needs a token, the address has one for 12 hours, and is only printed:
    other users of this machine can see the command line of a browser.
    """
    require("server", "fastapi", "uvicorn")
    from ...server.page.identity import is_served_at
    from ...server.running import Options, serve
    from ...server.threads import WRITE_TIMEOUT_S

    def show(url: str) -> Thread | None:
        link = _link(bus, url)
        output.result({"url": link}, link)
        output.flush()  # whoever reads waits for the address
        if link != url or no_open or not _has_screen():
            return None
        return start_thread(lambda: _open(url), "browser")

    with place.open(write_timeout_s=WRITE_TIMEOUT_S) as bus:
        is_free = _is_free(port)
        if is_free or not is_served_at(bus, HOST, port):
            if not is_free:
                output.note(f"another program, or bus, has port {port}: this takes a free one")
            serve(bus, Options(HOST, port if is_free else 0), on_ready=show)
        elif opening := show(f"http://{HOST}:{port}"):
            opening.join()
    return 0


def _link(bus: Bus, url: str) -> str:
    """Return the address of the page, with a token if one is needed; the page removes it."""
    from ...server.access.principals import Scope
    from ...server.access.tokens import Tokens

    tokens = Tokens.of(bus)
    if not tokens.are_needed():
        return url
    try:
        token = tokens.rotate(_TOKEN_NAME, overlap_s=_TOKEN_S, ttl_s=_TOKEN_S)
    except NotFound:
        token = tokens.create(_TOKEN_NAME, (Scope.MESSAGES_RW, Scope.WORK_RW), ttl_s=_TOKEN_S)
    return f"{url}/#token={token}"


def _is_free(port: int) -> bool:
    """Whether a port can be listened on; another program, or another bus, may have it."""
    import socket

    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def _has_screen() -> bool:
    """Whether there may be a browser with windows: one in a terminal would take this terminal."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(os.environ.get(each) for each in variables)


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        output.note("no browser could be started: open the address by hand")
