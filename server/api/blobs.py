"""Blobs: large content that goes in and out in pieces, and is never held in memory."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from io import RawIOBase
from typing import Annotated, Any, BinaryIO, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from fastapi import Header, Path, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from ...blobs.store import BlobStore
from ...schema.errors import InvalidInput
from ..connections import ClientTimeouts
from ..waiting import in_thread, until_gone
from .common import TheBus, has_tag, new_router, next_piece, problems

# Byte ranges of a response (RFC 9110, section 14).

_ONE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?", re.ASCII)


def part_of(header: str | None, size: int) -> range | None:
    """Return which bytes a `Range` header asks for; None: all of them.

    A header with several ranges, or of another form, returns None, as the RFC allows.

    Raises:
        HTTPException: none of them is there.
    """
    match = _ONE.fullmatch(header or "")
    if match is None or not any(match.groups()):
        return None
    if match[1] is None:
        part = range(max(0, size - int(match[2])), size)
    else:
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            return None
        part = range(first, min(last + 1, size) if match[2] else size)
    if not part:
        headers = {"Content-Range": f"bytes */{size}"}
        raise HTTPException(416, headers=headers) from InvalidInput(f"it has {size} bytes")
    return part


#: How long the end of a connection may take once it was ended, in seconds.
_END_S = 1.0

_OCTETS = "application/octet-stream"

router = new_router("blobs")

BlobName = Annotated[
    str, Path(pattern="^sha256-[0-9a-f]{64}$", description="What storing it returned.")
]


class BlobRecord(BaseModel):
    """A stored blob."""

    ref: str = Field(description="Its name: what a message's `payload_ref` says.")
    bytes: int = Field(description="How many it has.")


class _Incoming(RawIOBase):
    """A request's body, for a thread that reads it."""

    def __init__(self, request: Request) -> None:
        self._chunks = request.stream()
        self._patience: ClientTimeouts = request.app.state.patience

    def read(self, size: int = -1) -> bytes:
        """Return the next piece; empty at the end."""
        return anyio.from_thread.run(next_piece, self._chunks, self._patience.stalled_s)


@router.post(
    "/blobs",
    status_code=201,
    responses=problems(413),
    openapi_extra={
        "requestBody": {
            "content": {_OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def store_blob(request: Request, bus: TheBus) -> BlobRecord:
    """Store bytes, as they come. A message names them as its `payload_ref`.

    A blob that no message names within a day may be collected. Storing it again is safe.
    """
    body = cast(BinaryIO, _Incoming(request))
    put = partial(bus.blobs.put, body)
    ref = await anyio.to_thread.run_sync(put, limiter=request.app.state.uploads)
    return BlobRecord(ref=ref, bytes=await in_thread(partial(bus.blobs.size, ref)))


class BlobResponse(Response):
    """A blob, sent in pieces. It is checked before its first byte is sent.

    A browser only saves it: its content is not trusted.
    """

    media_type = _OCTETS

    def __init__(
        self,
        blobs: BlobStore,
        ref: str,
        size: int,
        *,
        part: range | None = None,
        is_head: bool = False,
    ) -> None:
        headers = _headers(ref) | {
            "Content-Disposition": f'attachment; filename="{ref}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
            "Accept-Ranges": "bytes",
        }
        if part is not None:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
        super().__init__(status_code=200 if part is None else 206, headers=headers)
        self.headers["Content-Length"] = str(size if part is None else len(part))
        self._blobs, self._ref, self._part, self._is_head = blobs, ref, part, is_head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. A client that stops reading is disconnected: it can't be told why."""
        state = scope["app"].state
        out = _Outgoing(send, self.status_code, self.raw_headers, state.patience)
        watch = asyncio.create_task(out.watch(receive))
        try:
            if not self._is_head:
                copy = partial(self._copy, cast(BinaryIO, out))
                await anyio.to_thread.run_sync(copy, limiter=state.downloads)
            await out.end()
        except (ClientDisconnect, TimeoutError):
            state.hang_up(scope["client"])
            with anyio.move_on_after(_END_S):
                await watch
        finally:
            watch.cancel()

    def _copy(self, out: BinaryIO) -> None:
        if self._part is None:
            self._blobs.copy(self._ref, out)
        else:
            self._blobs.copy_part(self._ref, out, self._part.start, len(self._part))


def _headers(ref: str) -> dict[str, str]:
    """Return the headers of a blob, sent or not: its name is its hash."""
    return {"Cache-Control": "private, max-age=31536000, immutable", "ETag": f'"{ref}"'}


class _Outgoing:
    """A response's body, for a thread that writes it."""

    def __init__(
        self, send: Send, status: int, headers: list[tuple[bytes, bytes]], patience: ClientTimeouts
    ) -> None:
        self._send = send
        self._patience = patience
        self._is_gone = False
        self._start: dict[str, Any] | None = {
            "type": "http.response.start",
            "status": status,
            "headers": headers,
        }

    def write(self, chunk: bytes) -> None:
        """Send a piece."""
        anyio.from_thread.run(self._send_piece, chunk, True)

    async def end(self) -> None:
        """Send that there is no more."""
        await self._send_piece(b"", False)

    async def watch(self, receive: Receive) -> None:
        """Note when the client is gone, so that sending stops."""
        await until_gone(receive)
        self._is_gone = True

    async def _send_piece(self, chunk: bytes, more: bool) -> None:
        if self._is_gone:
            raise ClientDisconnect
        if self._start is not None:  # only now: what goes wrong before has its own status
            await self._send(self._start)
            self._start = None
        with anyio.fail_after(self._patience.stalled_s):
            await self._send({"type": "http.response.body", "body": chunk, "more_body": more})


_BYTES = {"content": {_OCTETS: {"schema": {"type": "string", "format": "binary"}}}}
_DOWNLOAD: dict[int | str, dict[str, Any]] = {200: _BYTES, **problems()}
_PART: dict[int | str, dict[str, Any]] = {
    206: {"description": "The part of it that was asked for."} | _BYTES,
    304: {"description": "It is what the client has."},
}


@router.get(
    "/blobs/{ref}",
    status_code=200,
    response_class=BlobResponse,
    responses=_DOWNLOAD | _PART | problems(416),
)
def read_blob(
    ref: BlobName,
    bus: TheBus,
    range_header: Annotated[
        str | None, Header(alias="Range", description="`bytes=FIRST-LAST`, either left out.")
    ] = None,
    if_range: Annotated[str | None, Header(description="Else all of it.")] = None,
    if_none_match: Annotated[str | None, Header(description="What the client has.")] = None,
) -> Response:
    """Return a blob's bytes, or a part of them, all checked against its name."""
    size = bus.blobs.require(ref)
    headers = _headers(ref)
    if has_tag(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    part = part_of(range_header, size) if if_range in (None, headers["ETag"]) else None
    return BlobResponse(bus.blobs, ref, size, part=part)


@router.head("/blobs/{ref}", status_code=200, response_class=BlobResponse, responses=_DOWNLOAD)
def look_at_blob(ref: BlobName, bus: TheBus) -> Response:
    """Return the length of a blob; its bytes are not checked."""
    return BlobResponse(bus.blobs, ref, bus.blobs.size(ref), is_head=True)
