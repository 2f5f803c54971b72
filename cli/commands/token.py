"""Tokens of the server: create, list, rotate, remove."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.times import format_ts
from .. import arguments
from ..definition import Commands, optional
from ..extras import require
from ..options.common import HERE, Place
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...server.access.principals import Scope
    from ...server.access.tokens import Token

commands = Commands()
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
    place: Place = HERE,
) -> int:
    """Make a token, and print it: it is never shown again.

    As soon as the bus has a token, its server refuses requests without one. Exit code 3 when a
    valid token has this name.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    scopes = [_scope(each) for each in scope]
    with place.open() as bus:
        made = Tokens.of(bus).create(name, scopes, agent=agent, ttl_s=_ttl_s(expires))
    return _print_new(name, made)


@token.command("list", example="bus token list")
def show_list(place: Place = HERE) -> int:
    """List the tokens, never their secrets. Exit code 4 when there are none."""
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    with place.open() as bus:
        now_ms = bus.now_ms()
        records = [_record(each, now_ms) for each in Tokens.of(bus).all()]
    rows = [(record | {"scopes": " ".join(record["scopes"])}).values() for record in records]
    return output.results(records, rows)


@token.command("rotate", example="bus token rotate ci --overlap 1h")
def rotate(
    name: Name,
    overlap: Annotated[
        str, typer.Option(metavar="S", help="How long the old token stays valid.")
    ] = "1d",
    expires: Expires = None,
    place: Place = HERE,
) -> int:
    """Make a token that replaces another, and print it.

    Exit code 4 when no valid token has this name.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    overlap_s = arguments.seconds(overlap, "--overlap")
    with place.open() as bus:
        made = Tokens.of(bus).rotate(name, overlap_s=overlap_s, ttl_s=_ttl_s(expires))
    return _print_new(name, made)


@token.command("remove", example="bus token remove ci")
def remove(name: Name, place: Place = HERE) -> int:
    """Revoke the tokens of a name, from the next request on.

    Exit code 4 when there are none.
    """
    require("server", "fastapi")
    from ...server.access.tokens import Tokens

    with place.open() as bus:
        tokens = Tokens.of(bus)
        count = tokens.remove(name)
        is_last = not tokens.are_needed()
    if not count:
        raise NotFound(f"no token {name!r}; see 'bus token list'")
    output.result(
        {"name": name, "removed": count}, f"removed {output.counted(count, 'token')} {name}"
    )
    if is_last:
        output.note(
            "that was the last token: a running server refuses all requests; a new one that only"
            " this machine can reach accepts all of them"
        )
    return 0


def _print_new(name: str, made: str) -> int:
    output.result({"name": name, "token": made}, made)
    return 0


def _scope(text: str) -> Scope:
    from ...server.access.principals import Scope

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
