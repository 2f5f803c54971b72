"""Clients that follow a stream: what they get, how long they may take, and how they are dropped."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from starlette.requests import HTTPConnection

from ..access import still_allowed
from ..principals import Scope
from .batches import Batch

#: How often it is asked whether a client's token is still good, in seconds.
_ASK_EVERY_S = 1.0

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
        self._connection = connection
        self._asked_at = time.monotonic()
        #: Why it is dropped, in words.
        self.reason = ""
        self._address = connection.client
        self._hang_up = connection.app.state.hang_up
        self._patience: Patience = connection.app.state.patience
        self._counts = connection.app.state.metrics.streams(kind)

    async def gets(self, batch: Batch, send: Callable[[], Awaitable[None]]) -> bool:
        """Send a batch; return False when the client is to be dropped: `reason` says why."""
        if not self._is_let_in():
            self.reason = "the token is good no longer"
            return False
        with anyio.move_on_after(self._patience.stalled_s) as waiting:
            await send()
        if waiting.cancelled_caught:
            took = f"what was sent was not read within {self._patience.stalled_s:g} s"
            self.reason = f"{took}; go on from your cursor"
            return False
        self._counts.delivered(len(batch.events))
        return True

    def _is_let_in(self) -> bool:
        """Whether its token is good, as far as was asked a moment ago."""
        now = time.monotonic()
        if now - self._asked_at > _ASK_EVERY_S:
            self._asked_at = now
            return still_allowed(self._connection, Scope.MESSAGES_RO)
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
