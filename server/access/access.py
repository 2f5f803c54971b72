"""Authentication: the principal of a request, by its token, and the limit of its rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from ...bus.bus import Bus
from ...bus.trust.signing import sign_only_for
from .errors import TooManyRequests, Unauthorized
from .principals import LOCAL, Principal
from .rates import Bucket
from .rows import Door, Row
from .tokens import Tokens

#: The key in a request's state under which its principal is kept.
_KNOWN = "ackbus.principal"


class Doorkeeper(Protocol):
    """Finds the principal of a request; each application has one."""

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request, and count the request against its rate."""

    def holder(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request's token, without counting the request."""


def bearer(connection: HTTPConnection) -> str | None:
    """Return the token that a request shows, None where it shows none."""
    kind, _, token = connection.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


class Access:
    """Finds the principal of a request by its token.

    A bus without tokens accepts every request that reaches the server, as the file is open to
    every program of the user: no other user has access while it listens on this machine only.
    Once a token exists, the server demands one until it ends: removing the last token closes it.

    Args:
        bus: whose tokens.
        required: whether a token is needed even if the bus has none.
        max_rate: requests a second that a principal may make; None: no limit.
    """

    def __init__(self, bus: Bus, *, required: bool = False, max_rate: float | None = None) -> None:
        self._tokens = Tokens.of(bus)
        self._required = required or self._tokens.are_needed()
        self._max_rate = max_rate
        self._buckets: dict[str, Bucket] = {}

    def is_required(self) -> bool:
        """Whether a request needs a token at this moment."""
        self._required = self._required or self._tokens.are_needed()
        return self._required

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request, and count the request against its rate.

        Raises:
            Unauthorized: a token is needed, and the request shows no valid one.
            TooManyRequests: the principal's rate is exceeded.
        """
        found = self.holder(connection)
        if self._max_rate is not None:
            bucket = self._buckets.setdefault(found.name, Bucket(self._max_rate))
            if wait_s := bucket.take():
                text = f"{found.name} may ask {self._max_rate:g} times a second"
                raise TooManyRequests(text, wait_s)
        return found

    def holder(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request's token, without counting the request.

        Raises:
            Unauthorized: a token is needed, and the request shows no valid one.
        """
        is_required = self.is_required()  # asked by every request: the last token may go next
        token = bearer(connection)
        if token is not None:
            return self._tokens.holder(token)
        if is_required:
            raise Unauthorized("show a token: Authorization: Bearer bus_…")
        return LOCAL


def known(connection: HTTPConnection) -> Principal:
    """Return the principal of a request; the token is checked, and counted, once.

    Raises:
        Unauthorized, TooManyRequests: it may not be made.
    """
    if _KNOWN not in connection.scope:
        access: Doorkeeper = connection.app.state.access
        connection.scope[_KNOWN] = access.principal(connection)
    found: Principal = connection.scope[_KNOWN]
    return found


def allowed(connection: HTTPConnection, row: Row) -> Principal:
    """Return the principal of a request to an operation, which may sign for its agent alone.

    Raises:
        Unauthorized, Forbidden, TooManyRequests: it may not be made.
    """
    found = known(connection)
    if row.under_claim is None or not found.may(row.under_claim):
        found.require(*row.scopes or ())
    sign_only_for(found.agent)
    return found


def still_allowed(connection: HTTPConnection, row: Row) -> bool:
    """Whether a stream that a request began may go on: its token is still valid, and has all."""
    access: Doorkeeper = connection.app.state.access
    try:
        holder = access.holder(connection)
    except Unauthorized:
        return False
    return all(map(holder.may, row.scopes or ()))


class _Needed(SecurityBase):
    """The dependency that demands what a row of the table asks for, and documents it."""

    scheme_name = "token"
    model = HTTPBearer(description="Made by `bus token create`. A bus without tokens needs none.")

    def __init__(self, row: Row) -> None:
        self._row = row

    async def __call__(self, request: Request) -> Principal:
        return allowed(request, self._row)


class GuardedRouter(APIRouter):
    """A router whose operations need what the table of their door says.

    Args:
        door: the table; an operation that is not in it can't be added.
        options: as for any router.
    """

    def __init__(self, door: Door, **options: Any) -> None:
        super().__init__(**options)
        self._door = door

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add an operation, behind the dependency that demands its row.

        Raises:
            KeyError: the table has no such row.
        """
        for method in options["methods"]:
            row = self._door[f"{method} {plain(self.prefix + path)}"]
            if row.scopes is not None:
                scopes = sorted(row.scopes)
                guard = Security(_Needed(row), scopes=scopes)
                options["dependencies"] = [*(options.get("dependencies") or ()), guard]
        super().add_api_route(path, endpoint, **options)

    def add_api_websocket_route(
        self, path: str, endpoint: Callable[..., Any], *args: Any, **options: Any
    ) -> None:
        """Add a WebSocket, whose endpoint asks for its row, so that it can say why it closes.

        Raises:
            KeyError: the table has no such row.
        """
        _ = self._door[f"WS {plain(self.prefix + path)}"]
        super().add_api_websocket_route(path, endpoint, *args, **options)


def plain(path: str) -> str:
    """Return the path of a route without the kinds of its parameters, as the table has it."""
    return path.replace(":path}", "}")


async def _the_client(request: Request) -> Principal:
    return known(request)


#: The principal of a request, which the guard of its router has let in.
TheClient = Annotated[Principal, Depends(_the_client)]
