"""Serving a bus: serve."""

from __future__ import annotations

from typing import Annotated

import typer

from . import actions, output
from .commands import Commands
from .extras import require
from .options import Directory, Json, User, Verbose

commands = Commands()


@commands.command("serve", example="bus serve --port 8765")
def serve(
    host: Annotated[str, typer.Option(metavar="H", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0: a free one.")
    ] = 8765,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Serve the bus over HTTP, until Ctrl-C or SIGTERM.

    The JSON API is under /v1, and described in /v1/openapi.json. Programs that open the file need
    no server, and go on without it.
    """
    require("server", "fastapi", "uvicorn")
    from ..server import serve

    def announce(url: str) -> None:
        if json:
            output.json_line({"url": url})
        else:
            output.line(url)

    with actions.open_bus(directory, user) as bus:
        serve(bus, host=host, port=port, on_ready=announce)
    return 0
