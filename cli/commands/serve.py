"""Doors for other programs: serve, token, ui, mcp."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from ...bus.local_bus import LocalBus
from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.names import did_you_mean
from ...schema.message.times import format_ts
from ...schema.processes import start_thread
from .. import arguments
from ..definition import Commands, optional
from ..extras import require
from ..fast import mcp_server
from ..options.common import HERE, BusPlace, BusPlaceOnly
from ..show.output import Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread

    from ...server.access.tokens import Scope, Token

commands = Commands()

HOST = "127.0.0.1"
#: The default port: no well-known program listens on it.
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
    place: BusPlace = HERE,
) -> int:
    """Serve the bus over HTTP, until Ctrl-C or SIGTERM.

    The JSON API is under /v1, and described in /v1/openapi.json. Programs that open the file need
    no server. An address that other machines can reach needs a token ('bus token'). Exit code 3
    when this bus is served there already.
    """
    require("server", "fastapi", "uvicorn")
    from ...server.page.files import is_served_at
    from ...server.running import Options, serve
    from ...server.waiting import WRITE_TIMEOUT_S

    def announce(url: str) -> None:
        place.output.result({"url": url}, url)
        place.output.flush()  # the reader waits for the address
        if not options.is_of_this_machine:
            place.output.note(
                "this is plain HTTP: others on the network can read all of it, tokens too;"
                " put a proxy with TLS or a tunnel before it"
            )

    with place.open(write_timeout_s=WRITE_TIMEOUT_S, lives_long=True) as bus:
        if port and is_served_at(bus, host, port):
            raise Refused(f"this bus is served there already, at http://{host}:{port}")
        options = Options(
            host,
            port,
            max_rate,
            allow_origin or (),
            max_blob * 1024 * 1024,
            pushpals=pushpals,
            pushpals_is_open=is_open,
        )
        serve(bus, options, on_ready=announce)
    return 0


# The page for people: ui.

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
    place: BusPlace = HERE,
) -> int:
    """Open the page of the bus in the browser.

    A running server of this bus on the port is used; else one is started, which runs until
    Ctrl-C. If the server needs a token, the address has one for 12 hours, and is only printed:
    other users of this machine can see the command line of a browser.
    """
    require("server", "fastapi", "uvicorn")
    from ...server.page.files import is_served_at
    from ...server.running import Options, serve
    from ...server.waiting import WRITE_TIMEOUT_S

    def show(url: str) -> Thread | None:
        link = _link(bus, url)
        place.output.result({"url": link}, link)
        place.output.flush()  # the reader waits for the address
        if link != url or no_open or not _has_screen():
            return None
        return start_thread(lambda: _open(place.output, url), "browser")

    with place.open(write_timeout_s=WRITE_TIMEOUT_S, lives_long=True) as bus:
        is_free = _is_free(port)
        if is_free or not is_served_at(bus, HOST, port):
            if not is_free:
                place.output.note(
                    f"another program, or bus, has port {port}: this takes a free one"
                )
            serve(bus, Options(HOST, port if is_free else 0), on_ready=show)
        elif opening := show(f"http://{HOST}:{port}"):
            opening.join()
    return 0


def _link(bus: LocalBus, url: str) -> str:
    """Return the address of the page, with a token if one is needed; the page removes it."""
    from ...server.access.tokens import Scope, Tokens

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
    return sys.platform == "darwin" or any(os.environ.get(variable) for variable in variables)


def _open(output: Output, url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        output.note("no browser could be started: open the address by hand")


# The MCP server for coding agents: mcp.


@commands.command("mcp", example="bus mcp --agent reviewer --profile full")
def mcp(
    agent: Annotated[
        str | None,
        optional(
            "NAME", "The only name of the agent. Default: $BUS_AGENT, else the agent chooses."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="P", help="Which tools: default (6) or full (13).")
    ] = "default",
    place: BusPlaceOnly = HERE,
) -> int:
    """Serve a coding agent that speaks MCP, over stdin and stdout.

    It ends with stdin. An agent's program starts this by itself; put it into its configuration.
    """
    return mcp_server.mcp(
        place.output, agent=agent, profile=profile, directory=place.directory, user=place.user
    )


# Tokens of the server: create, list, rotate, remove.

token = commands.group("token", help="Access tokens for the server of the bus.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]
Expires = Annotated[
    str | None, optional("S", "Expires after this time, like 12h, 90d. Default: never.")
]


@token.command("create", example="bus token create ci --scope messages:rw --agent ci")
def create(
    name: Name,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="S",
            help="messages or work, or of automation plugin, jobs, events, each with :ro or :rw; "
            "tasks:rw for what has tasks begun, decided or landed; or admin; may be repeated.",
        ),
    ],
    agent: Annotated[
        str | None, optional("A", "The only agent that it may act for.", "--agent")
    ] = None,
    expires: Expires = None,
    place: BusPlace = HERE,
) -> int:
    """Make a token, and print it: it is never shown again.

    As soon as the bus has a token, its server refuses requests without one. Exit code 3 when a
    valid token has this name.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    scopes = [_scope(word) for word in scope]
    with place.open() as bus:
        new_token = Tokens.of(bus).create(name, scopes, agent=agent, ttl_s=_ttl_s(expires))
    return _print_new(place.output, name, new_token)


@token.command("list", example="bus token list")
def show_list(place: BusPlace = HERE) -> int:
    """List the tokens, never their secrets. Exit code 4 when there are none."""
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    with place.open() as bus:
        now_ms = bus.now_ms()
        records = [_record(entry, now_ms) for entry in Tokens.of(bus).all()]
    rows = [(record | {"scopes": " ".join(record["scopes"])}).values() for record in records]
    return place.output.results(records, rows)


@token.command("rotate", example="bus token rotate ci --overlap 1h")
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option(metavar="S", help="How long the old token stays valid.")
    ] = "1d",
    expires: Expires = None,
    place: BusPlace = HERE,
) -> int:
    """Make a token that replaces another, and print it.

    Exit code 4 when no valid token has this name.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    overlap_s = arguments.seconds(overlap, "--overlap")
    with place.open() as bus:
        new_token = Tokens.of(bus).rotate(name, overlap_s=overlap_s, ttl_s=_ttl_s(expires))
    return _print_new(place.output, name, new_token)


@token.command("remove", example="bus token remove ci")
def remove(name: Name, place: BusPlace = HERE) -> int:
    """Revoke the tokens of a name, from the next request on.

    Exit code 4 when there are none.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    with place.open() as bus:
        tokens = Tokens.of(bus)
        count = tokens.remove(name)
        is_last = not tokens.are_needed()
        hint = "" if count else did_you_mean(name, (token.name for token in tokens.all()))
    if not count:
        raise NotFound(f"no token {name!r}{hint}; see 'bus token list'")
    place.output.result(
        {"name": name, "removed": count}, f"removed {counted(count, 'token')} {name}"
    )
    if is_last:
        place.output.note(
            "that was the last token: a running server refuses all requests; a new one that only"
            " this machine can reach accepts all of them"
        )
    return 0


def _print_new(output: Output, name: str, token: str) -> int:
    output.result({"name": name, "token": token}, token)
    return 0


def _scope(text: str) -> Scope:
    from ...server.access.tokens import Scope

    try:
        return Scope(text)
    except ValueError as error:
        raise InvalidInput(f"{text!a} is not a scope; there are {', '.join(Scope)}") from error


def _ttl_s(expires: str | None) -> float | None:
    return None if expires is None else arguments.seconds(expires, "--expires")


def _record(token: Token, now_ms: int) -> dict[str, Any]:
    ends_ms = token.expires_at_ms
    return {
        "name": token.name,
        "id": token.id,
        "scopes": sorted(token.scopes),
        "agent": token.agent,
        "created": format_ts(token.created_at_ms),
        "expires": None if ends_ms is None else format_ts(ends_ms),
        "good": ends_ms is None or ends_ms > now_ms,
    }
