"""Who is let in."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from ..bus import Bus
from .errors import Forbidden, TooManyRequests, Unauthorized
from .principals import LOCAL, Principal, Scope
from .tokens import Tokens

#: Where it stands, with all else that is known of a request, who makes it.
_KNOWN = "ackbus.principal"


class Access:
    """Decides who asks, by the token that a request shows.

    A bus without tokens lets in everybody who reaches the server, as the file lets in everybody
    who can open it: that is the user, and nobody else, as long as it listens on this machine only.
    A server that has seen one needs one until it ends: to remove the last is to let nobody in.

    Args:
        bus: whose tokens.
        required: whether there must be a token, even if the bus has none.
        max_rate: how many requests a second a principal may make; None: any.
    """

    def __init__(self, bus: Bus, *, required: bool = False, max_rate: float | None = None) -> None:
        self._tokens = Tokens(bus.database)
        self._required = required or self._tokens.are_needed()
        self._max_rate = max_rate
        self._buckets: dict[str, _Bucket] = {}

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return who makes a request.

        Raises:
            Unauthorized: it shows no token that is good, and needs one.
            TooManyRequests: it is one too many.
        """
        found = self.holder(connection)
        if self._max_rate is not None:
            bucket = self._buckets.setdefault(found.name, _Bucket(self._max_rate))
            if wait_s := bucket.take():
                text = f"{found.name} may ask {self._max_rate:g} times a second"
                raise TooManyRequests(text, wait_s)
        return found

    def holder(self, connection: HTTPConnection) -> Principal:
        """Return whose token a request shows, however often it asks.

        Raises:
            Unauthorized: it shows no token that is good, and needs one.
        """
        if not self._required:
            self._required = self._tokens.are_needed()
        kind, _, token = connection.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._tokens.holder(token.strip())
        if self._required:
            raise Unauthorized("show a token: Authorization: Bearer bus_…")
        return LOCAL


class _Bucket:
    """Lets through so many a second, and as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left = max(rate, 1.0)
        self._at = time.monotonic()

    def take(self) -> float:
        """Take one; return after how many seconds there is one, or 0: it was taken."""
        now = time.monotonic()
        self._left = min(max(self._rate, 1.0), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


def known(connection: HTTPConnection) -> Principal:
    """Return who makes a request; that is found out, and counted, once.

    Raises:
        Unauthorized, TooManyRequests: it may not be made.
    """
    if _KNOWN not in connection.scope:
        access: Access = connection.app.state.access
        connection.scope[_KNOWN] = access.principal(connection)
    found: Principal = connection.scope[_KNOWN]
    return found


def allowed(connection: HTTPConnection, *scopes: Scope) -> Principal:
    """Return who makes a request, which needs all of these scopes.

    Raises:
        Unauthorized, Forbidden, TooManyRequests: it may not be made.
    """
    found = known(connection)
    for scope in scopes:
        if not found.may(scope):
            raise Forbidden(f"this token has no scope {scope.value!r}")
    return found


def still_allowed(connection: HTTPConnection, scope: Scope) -> bool:
    """Whether what a request began, which needs a scope, may go on."""
    access: Access = connection.app.state.access
    try:
        return access.holder(connection).may(scope)
    except Unauthorized:
        return False


class _Needed(SecurityBase):
    """The token that an operation needs: as it is documented, and as it is asked for."""

    scheme_name = "token"
    model = HTTPBearer(description="Made by `bus token create`. A bus without tokens needs none.")

    def __init__(self, scopes: tuple[Scope, ...]) -> None:
        self._scopes = scopes

    async def __call__(self, request: Request) -> Principal:
        return allowed(request, *self._scopes)


def needs(*scopes: Scope) -> Any:
    """Return what an operation depends on that only principals with all these scopes may use."""
    return Security(_Needed(scopes), scopes=scopes)
