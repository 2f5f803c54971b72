"""The bodies of requests: each is read within a time, and all together take a bounded memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import Request

#: How many bytes of bodies are held at a time: nothing is known of their senders until they are
#: whole. One alone may be longer, if its endpoint takes it.
MAX_HELD_BYTES = 32 * 1024 * 1024


class BodyRefused(Exception):
    """A body is not read to its end; the text is for its sender.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class Bodies:
    """The bodies that are held, from their first byte until they are stored.

    Used from the event loop alone.

    Args:
        within_s: how long a client may take for a whole body, in seconds.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """Read the body of a request, and count it as held inside the block.

        Args:
            request: nothing of its body is read yet.
            limit: the longest body, in bytes.

        Raises:
            BodyRefused: it is too long or takes too long, or others hold all the memory.
        """
        told = request.headers.get("Content-Length", "")
        if told.isdecimal() and int(told) > limit:
            raise BodyRefused(413, "payload too large")
        pieces: list[bytes] = []
        size = 0
        try:
            with anyio.move_on_after(self._within_s) as reading:
                async for piece in request.stream():
                    size += len(piece)
                    self._held += len(piece)
                    if size > limit:
                        raise BodyRefused(413, "payload too large")
                    if self._held > max(MAX_HELD_BYTES, size):
                        raise BodyRefused(503, "too many bodies are under way")
                    pieces.append(piece)
            if reading.cancelled_caught:
                raise BodyRefused(408, "the body took too long")
            yield b"".join(pieces)
        finally:
            self._held -= size
