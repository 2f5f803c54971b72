"""Authentication: the principal of a request, where it comes from, and the limit of its rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Lock
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ...bus.local_bus import LocalBus
from ...bus.signing import sign_only_for
from ...schema.errors import InvalidInput
from ..problems import refusal
from .table import AccessRule, AccessTable
from .tokens import LOCAL, Principal, Tokens, TooManyRequests, Unauthorized

# A guard against requests that pages of other sites make without the user's knowledge.
#
# A browser allows any page to send requests to this machine. It sends the page's origin
# (`Origin`, or `Sec-Fetch-Site`), and the name that it resolved (`Host`): a foreign page can
# point a name of its own to this machine (DNS rebinding), and would then read the responses too.

#: The names of this machine for itself.
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class OwnOrigins:
    """Middleware that passes requests of programs, and those of allowed pages.

    Args:
        app: the application behind it.
        hosts: the host names that requests may use; None: any.
        origins: the origins whose pages may send requests, besides the server's own.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        why = self._why_not(Headers(scope=scope)) if "headers" in scope else None
        if why is None:
            await self._app(scope, receive, send)
        else:
            refused = refusal(HTTPConnection(scope), 403, "foreign-origin", why)
            await refused(scope, receive, send)

    def _why_not(self, headers: Headers) -> str | None:
        host = headers.get("Host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return f"this server is not known as {host[:100]!a}"
        origin = headers.get("Origin")
        if origin is None:
            return "a page of another site may only link here" if _is_embedded(headers) else None
        if origin in self._origins or _host(origin) == host:
            return None
        return f"pages of {origin[:100]!a} may not ask; see 'bus serve --help', --allow-origin"


def check_origin(text: str) -> None:
    """Refuse a text that no browser sends as an origin: it would never match a page.

    Raises:
        InvalidInput: it is none.
    """
    scheme, _, host = text.partition("://")
    if not scheme or not host or _host(text) != host or text != text.lower():
        raise InvalidInput(f"{text[:100]!a} is not an origin of pages, like https://board.example")


def _is_embedded(headers: Headers) -> bool:
    """Whether a foreign page sends the request by a picture, a frame or the like.

    The page learns little by that, but the server would do the work. A link that a person follows
    is allowed: that is a request for a document.
    """
    is_foreign = headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    return is_foreign and headers.get("Sec-Fetch-Dest") != "document"


def _host(origin: str) -> str | None:
    """Return the Host header that a browser sends for an origin; None where it is no URL."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


# A limit of rates: the token bucket.


class Bucket:
    """A token bucket: allows `rate` requests a second, and bursts. Any thread may use it.

    Args:
        rate: requests a second.
        burst: how many may come at once; None: those of a second.
    """

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self._rate = rate
        self._most = max(rate if burst is None else burst, 1.0)
        self._left = self._most
        self._at = time.monotonic()
        self._lock = Lock()

    def take(self) -> float:
        """Take one request; return 0 if it is allowed, or the seconds until the next one is."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 1:
                return (1 - self._left) / self._rate
            self._left -= 1
            return 0.0


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


class BusAccess:
    """Finds the principal of a request by its token.

    A bus without tokens accepts every request that reaches the server, as the file is open to
    every program of the user: no other user has access while it listens on this machine only.
    Once a token exists, the server demands one until it ends: removing the last token closes it.

    Args:
        bus: whose tokens.
        required: whether a token is needed even if the bus has none.
        max_rate: requests a second that a principal may make; None: no limit.
    """

    def __init__(
        self, bus: LocalBus, *, required: bool = False, max_rate: float | None = None
    ) -> None:
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
        principal = self.holder(connection)
        if self._max_rate is not None:
            bucket = self._buckets.setdefault(principal.name, Bucket(self._max_rate))
            if wait_s := bucket.take():
                text = f"{principal.name} may ask {self._max_rate:g} times a second"
                raise TooManyRequests(text, wait_s)
        return principal

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


def principal_of(connection: HTTPConnection) -> Principal:
    """Return the principal of a request; the token is checked, and counted, once.

    Raises:
        Unauthorized, TooManyRequests: it may not be made.
    """
    if _KNOWN not in connection.scope:
        access: Doorkeeper = connection.app.state.access
        connection.scope[_KNOWN] = access.principal(connection)
    principal: Principal = connection.scope[_KNOWN]
    return principal


def authorize(connection: HTTPConnection, row: AccessRule) -> Principal:
    """Return the principal of a request to an operation, which may sign for its agent alone.

    Raises:
        Unauthorized, Forbidden, TooManyRequests: it may not be made.
    """
    principal = principal_of(connection)
    if row.under_claim is None or not principal.may(row.under_claim):
        principal.require(*row.scopes or ())
    sign_only_for(principal.agent)
    return principal


def is_still_authorized(connection: HTTPConnection, row: AccessRule) -> bool:
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

    def __init__(self, row: AccessRule) -> None:
        self._row = row

    async def __call__(self, request: Request) -> Principal:
        return authorize(request, self._row)


class GuardedRouter(APIRouter):
    """A router whose operations need what the table of their door says.

    Args:
        door: the table; an operation that is not in it can't be added.
        options: as for any router.
    """

    def __init__(self, door: AccessTable, **options: Any) -> None:
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
    return principal_of(request)


#: The principal of a request, which the guard of its router has let in.
TheClient = Annotated[Principal, Depends(_the_client)]
