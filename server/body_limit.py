"""A limit on the length of request bodies, before they are read or while they are."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..schema.errors import InvalidInput
from .problems import TOO_LARGE, refusal

#: The most that a body may have, but for those of blobs: a payload's 16 MiB, and what is around it.
MAX_BODY_BYTES = 17 * 1024 * 1024
#: The most that a blob may have, unless the options say so: 4 GiB.
MAX_BLOB_BYTES = 4 * 1024**3

#: Where blobs are stored.
_BLOBS = "/v1/blobs"


class BodyLimit:
    """Middleware that refuses bodies beyond the limit.

    Args:
        app: the application behind it.
        max_blob_bytes: the longest blob.
    """

    def __init__(self, app: ASGIApp, max_blob_bytes: int) -> None:
        self._app = app
        self._max_blob_bytes = max_blob_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._max_blob_bytes if scope["path"] == _BLOBS else MAX_BODY_BYTES
        length = Headers(scope=scope).get("Content-Length", "")
        if length.isdecimal() and int(length) > limit:
            detail = f"{scope['method']} {scope['path']}: at most {limit} bytes, not {length}"
            refused = refusal(HTTPConnection(scope), 413, TOO_LARGE, detail)
            await refused(scope, receive, send)
            return
        await self._app(scope, _bounded(receive, limit), send)


def _bounded(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that refuses a body of unknown length beyond a limit."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            too_long = InvalidInput(f"at most {limit} bytes")
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE) from too_long
        return message

    return bounded
