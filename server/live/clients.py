"""Clients of a stream: sending to them, their timeouts, and the end of their stream."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

import anyio
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from ...schema.errors import AckbusError
from ...schema.sqlite.rules.damaged_rows import damage_behind
from ..access.access import still_allowed
from ..access.rows import Row
from ..client_timeouts import Patience
from .batches import Batch

#: How often a client's token is checked again, in seconds.
_ASK_EVERY_S = 1.0

#: How long a client that is dropped may take to read the reason, at most, in seconds.
_LAST_WORDS_S = 5.0

_log = logging.getLogger("ackbus.server")


class End(Exception):
    """The end of a stream: its reason, and the close code of RFC 6455."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code

    @classmethod
    def stopped(cls) -> End:
        """Return the end of a stream whose server stops."""
        return cls(1001, "the server stops; go on from your cursor")

    @classmethod
    def refused(cls, why: str) -> End:
        """Return the end of a stream that its client has no right to: retrying is useless."""
        return cls(1008, why)

    @classmethod
    def failed(cls, why: str) -> End:
        """Return the end of a stream because the bus can't be read."""
        return cls(1011, why)

    @classmethod
    def for_now(cls, why: str) -> End:
        """Return the end of a stream that its client may ask for again in a moment."""
        return cls(1013, why)


class Wire(Protocol):
    """The transport to one client."""

    async def send(self, batch: Batch) -> None:
        """Send a batch; return when the system has taken it."""

    async def close(self, end: End) -> None:
        """Send the end of the stream, with its reason."""

    async def gone(self) -> None:
        """Return when the client has disconnected."""


class Client:
    """One client of a stream.

    Args:
        connection: the client's connection.
        kind: the kind of the stream: `sse` or `websocket`.
        wire: the transport to the client.
        row: what its token needs, as long as the stream lasts.
    """

    def __init__(
        self,
        connection: HTTPConnection,
        kind: str,
        wire: Wire,
        row: Row,
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._row = row
        self._asked_at = time.monotonic()
        self._address = connection.client
        self._hang_up = connection.app.state.hang_up
        self._patience: Patience = connection.app.state.patience
        self._counts = connection.app.state.metrics.streams(kind)

    async def follow(self, batches: AsyncIterator[Batch]) -> None:
        """Send batches until the client leaves, stalls or loses its right, or the server stops."""
        self._counts.came()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_gone, tasks.cancel_scope)
                try:
                    await self._send_all(batches)
                except End as end:
                    await self._drop(end)
                except WebSocketDisconnect:
                    pass  # it went while it was being written to
                tasks.cancel_scope.cancel()
        finally:
            self._counts.went()

    async def _cancel_when_gone(self, scope: anyio.CancelScope) -> None:
        await self._wire.gone()
        scope.cancel()

    async def _send_all(self, batches: AsyncIterator[Batch]) -> None:
        try:
            async for batch in batches:
                if not self._is_let_in():
                    raise End.refused("the token is no longer valid")
                await self._send(batch)
        except AckbusError as error:
            raise End.failed(str(error)) from error
        except Exception as error:
            damaged = await anyio.to_thread.run_sync(damage_behind, error)
            if damaged is None:
                raise
            raise End.failed(str(damaged)) from error
        await self._wire.close(End.stopped())

    async def _send(self, batch: Batch) -> None:
        with anyio.move_on_after(self._patience.stalled_s) as waiting:
            await self._wire.send(batch)
        if waiting.cancelled_caught:
            took = f"what was sent was not read within {self._patience.stalled_s:g} s"
            raise End.for_now(f"{took}; go on from your cursor")
        self._counts.delivered(len(batch.events))

    def _is_let_in(self) -> bool:
        """Whether its token is valid, as of the last check."""
        now = time.monotonic()
        if now - self._asked_at > _ASK_EVERY_S:
            self._asked_at = now
            return still_allowed(self._connection, self._row)
        return True

    async def _drop(self, end: End) -> None:
        """Send the client the reason, if it reads again soon; else end its connection."""
        self._counts.dropped()
        host, port = self._address or ("?", 0)
        _log.warning("dropped %s port %s: %s", host, port, end)
        last_words_s = min(self._patience.stalled_s, _LAST_WORDS_S)
        with anyio.move_on_after(last_words_s) as waiting:
            await self._wire.close(end)
        if waiting.cancelled_caught:
            self._hang_up(self._address)
            await anyio.sleep(last_words_s)  # the end of the connection ends this
