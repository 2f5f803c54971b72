"""Serving a bus: serve."""

from __future__ import annotations

from typing import Annotated

import typer

from ...schema.errors import Refused
from ..definition import Commands, optional
from ..extras import require
from ..options.common import HERE, Place
from ..show import output

commands = Commands()

HOST = "127.0.0.1"
#: One that no well-known program listens on.
PORT = 8287


@commands.command("serve", example="bus serve --port 8287")
def serve(
    host: Annotated[str, typer.Option(metavar="H", help="The address to listen on.")] = HOST,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0: a free one.")
    ] = PORT,
    allow_origin: Annotated[
        list[str] | None,
        optional("URL", "Allow requests from pages of this origin; may be repeated."),
    ] = None,
    max_rate: Annotated[
        float | None,
        optional("R", "How many requests a second each token may make. Default: any.", min=0.001),
    ] = None,
    max_blob: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="The longest blob that a client may store.")
    ] = 4096,
    pushpals: Annotated[
        bool, typer.Option("--pushpals", help="Answer in the forms of PushPals too: tasks.")
    ] = False,
    is_open: Annotated[
        bool, typer.Option("--open", help="Those need no token, on this machine.")
    ] = False,
    place: Place = HERE,
) -> int:
    """Serve the bus over HTTP, until Ctrl-C or SIGTERM.

    The JSON API is under /v1, and described in /v1/openapi.json. Programs that open the file need
    no server. An address that other machines can reach needs a token ('bus token'). Exit code 3
    when this bus is served there already.
    """
    require("server", "fastapi", "uvicorn")
    from ...server.page.identity import is_served_at
    from ...server.running import Options, serve
    from ...server.threads import WRITE_TIMEOUT_S

    def announce(url: str) -> None:
        output.result({"url": url}, url)
        output.flush()  # whoever reads waits for the address
        if not options.is_of_this_machine:
            output.note(
                "this is plain HTTP: others on the network can read all of it, tokens too;"
                " put a proxy with TLS or a tunnel before it"
            )

    with place.open(write_timeout_s=WRITE_TIMEOUT_S) as bus:
        if port and is_served_at(bus, host, port):
            raise Refused(f"this bus is served there already, at http://{host}:{port}")
        options = Options(
            host,
            port,
            max_rate,
            allow_origin or (),
            max_blob * 1024 * 1024,
            pushpals=pushpals,
            is_open=is_open,
        )
        serve(bus, options, on_ready=announce)
    return 0
