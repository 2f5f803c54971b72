"""Clients that follow a stream: what they get, how long they may take, and how they are dropped."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

import anyio
from starlette.requests import HTTPConnection

from .batches import Batch

#: How long a client that is dropped may take to hear why, at most, in seconds.
_LAST_WORDS_S = 5.0

_log = logging.getLogger("ackbus.server")


@dataclass(frozen=True)
class Patience:
    """How long the streams wait for their clients.

    Attributes:
        stalled_s: how long a client may take for what it was sent before it is dropped, in
            seconds. What it was sent is at most a batch and what the system buffers.
        keep_alive_s: how often it hears that the stream is alive, when nothing comes, in seconds.
    """

    stalled_s: float = 30.0
    keep_alive_s: float = 15.0


class Client:
    """One client of a stream. Use it as a context manager while the stream is open.

    Args:
        connection: over which it came.
        kind: of the stream: `sse` or `websocket`.
    """

    def __init__(self, connection: HTTPConnection, kind: str) -> None:
        self._address = connection.client
        self._hang_up = connection.app.state.hang_up
        self._patience: Patience = connection.app.state.patience
        self._counts = connection.app.state.metrics.streams(kind)

    @property
    def reason(self) -> str:
        """What a client is told that is dropped."""
        took = f"what was sent was not read within {self._patience.stalled_s:g} s"
        return f"{took}; go on from your cursor"

    async def gets(self, batch: Batch, sending: Awaitable[None]) -> bool:
        """Send a batch; return False when the client takes too long for what it was sent."""
        with anyio.move_on_after(self._patience.stalled_s) as waiting:
            await sending
        if waiting.cancelled_caught:
            return False
        self._counts.delivered(len(batch.events))
        return True

    async def drop(self, telling: Awaitable[None]) -> None:
        """Tell the client why, if it reads again soon; else end its connection."""
        self._counts.dropped()
        _log.warning("dropped %s: %s", self._address, self.reason)
        last_words_s = min(self._patience.stalled_s, _LAST_WORDS_S)
        with anyio.move_on_after(last_words_s) as waiting:
            await telling
        if waiting.cancelled_caught:
            self._hang_up(self._address)
            await anyio.sleep(last_words_s)  # the end of the connection ends this

    def __enter__(self) -> Client:
        self._counts.came()
        return self

    def __exit__(self, *error: object) -> None:
        self._counts.went()
