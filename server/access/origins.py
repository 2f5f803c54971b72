"""A guard against requests that pages of other sites make without the user's knowledge.

A browser allows any page to send requests to this machine. It sends the page's origin (`Origin`, or
`Sec-Fetch-Site`), and the name that it resolved (`Host`): a foreign page can point a name of its
own to this machine (DNS rebinding), and would then read the responses too.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ...schema.errors import InvalidInput
from ..problems import refusal

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
