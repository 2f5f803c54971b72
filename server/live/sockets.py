"""The same streams over WebSocket: each message a text frame with its line."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import anyio
from anyio.lowlevel import checkpoint
from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect

from ...bus import Bus, Wanted
from ...schema import MAX_SEQ, AckbusError
from ..access import allowed
from ..principals import Scope
from .batches import Batch
from .clients import Client, Patience
from .cursors import begin_after
from .feed import Feed

# Close codes of RFC 6455, and what they mean here.
_GOING_AWAY, _POLICY, _TRY_AGAIN_LATER = 1001, 1008, 1013

After = Annotated[int | None, Query(ge=0, le=MAX_SEQ)]

router = APIRouter(prefix="/v1")


@router.websocket("/ws")
async def follow(
    socket: WebSocket,
    after: After = None,
    type: str | None = None,
    agent: str | None = None,
    conversation: str | None = None,
) -> None:
    """Follow the messages; what the client sends is not read. Parameters as for `/v1/events`."""
    await serve_socket(socket, after, type=type, agent=agent, conversation=conversation)


async def serve_socket(socket: WebSocket, after: int | None, **filters: Any) -> None:
    """Send what fits the filters, until the client goes, stalls, or the server stops."""
    await socket.accept()
    bus: Bus = socket.app.state.bus
    try:
        allowed(socket, Scope.MESSAGES_RO)
        wanted = Wanted(**filters)
        begin = begin_after(bus, after, None)
    except AckbusError as error:
        await socket.close(_POLICY, str(error)[:120])
        return
    with Client(socket, "websocket") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when_gone, socket, tasks.cancel_scope)
            with suppress(WebSocketDisconnect):  # it went while it was being written to
                await _send_all(socket, client, begin, wanted)
            tasks.cancel_scope.cancel()


async def _send_all(socket: WebSocket, client: Client, begin: int, wanted: Wanted) -> None:
    """Send until the end, and say why it came."""
    feed: Feed = socket.app.state.feed
    patience: Patience = socket.app.state.patience
    async for batch in feed.stream(begin, wanted, keep_alive_s=patience.keep_alive_s):
        if not await client.gets(batch, partial(_send, socket, batch)):
            await client.drop(socket.close(_TRY_AGAIN_LATER, client.reason))
            return
    await socket.close(_GOING_AWAY, "the server stops; go on from your cursor")


async def _send(socket: WebSocket, batch: Batch) -> None:
    for text in batch.texts:
        await socket.send_text(text)
        await checkpoint()  # else nobody hears, before all is written, that the client is gone


async def _cancel_when_gone(socket: WebSocket, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await socket.receive()  # nothing that a client sends is asked for
    except (WebSocketDisconnect, RuntimeError):
        scope.cancel()
