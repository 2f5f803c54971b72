"""Authentication: the principal of a request, by its token, and the limit of its rate."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from ...bus.bus import Bus
from .errors import Forbidden, TooManyRequests, Unauthorized
from .principals import LOCAL, Principal, Scope
from .rates import Bucket
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
        if not self._required:
            self._required = self._tokens.are_needed()
        token = bearer(connection)
        if token is not None:
            return self._tokens.holder(token)
        if self._required:
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


def allowed(connection: HTTPConnection, *scopes: Scope) -> Principal:
    """Return the principal of a request that needs all of these scopes.

    Raises:
        Unauthorized, Forbidden, TooManyRequests: it may not be made.
    """
    found = known(connection)
    for scope in scopes:
        if not found.may(scope):
            raise Forbidden(f"this token has no scope {scope.value!r}")
    return found


def still_allowed(connection: HTTPConnection, scope: Scope) -> bool:
    """Whether a stream that a request began may go on: its token is still valid for the scope."""
    access: Doorkeeper = connection.app.state.access
    try:
        return access.holder(connection).may(scope)
    except Unauthorized:
        return False


class _Needed(SecurityBase):
    """The dependency that demands a token with scopes, and documents it."""

    scheme_name = "token"
    model = HTTPBearer(description="Made by `bus token create`. A bus without tokens needs none.")

    def __init__(self, scopes: tuple[Scope, ...]) -> None:
        self._scopes = scopes

    async def __call__(self, request: Request) -> Principal:
        return allowed(request, *self._scopes)


def needs(*scopes: Scope) -> Any:
    """Return a dependency that admits only principals with all these scopes."""
    return Security(_Needed(scopes), scopes=scopes)
