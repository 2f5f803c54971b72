"""The same streams over WebSocket: each message a text frame with its line."""

from __future__ import annotations

from typing import Annotated

import anyio
from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect

from ...bus import Bus, Wanted
from ...schema import MAX_SEQ, AckbusError
from ..access import allowed
from ..principals import Scope
from .cursors import begin_after
from .feed import Feed

#: How long a client may leave what it was sent unread before it is dropped, in seconds.
STALLED_S = 30.0

# Close codes of RFC 6455, and what they mean here.
_GOING_AWAY, _POLICY, _TRY_AGAIN_LATER = 1001, 1008, 1013

router = APIRouter(prefix="/v1")


@router.websocket("/ws")
async def follow(
    socket: WebSocket,
    after: Annotated[int | None, Query(ge=0, le=MAX_SEQ)] = None,
    type: str | None = None,
    agent: str | None = None,
    conversation: str | None = None,
) -> None:
    """Follow the messages; what the client sends is not read. Parameters as for `/v1/events`."""
    await socket.accept()
    bus: Bus = socket.app.state.bus
    try:
        allowed(socket, Scope.MESSAGES_RO)
        wanted = Wanted(type, conversation, agent)
        begin = begin_after(bus, after, None)
    except AckbusError as error:
        await socket.close(_POLICY, str(error)[:120])
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, socket, tasks.cancel_scope)
        code, reason = await _send_all(socket, begin, wanted)
        await socket.close(code, reason)
        tasks.cancel_scope.cancel()


async def _send_all(socket: WebSocket, begin: int, wanted: Wanted) -> tuple[int, str]:
    """Send until the end, and return why it came: a close code, and words."""
    feed: Feed = socket.app.state.feed
    async for batch in feed.stream(begin, wanted, keep_alive_s=STALLED_S):
        with anyio.move_on_after(STALLED_S) as patience:
            for text in batch.texts:
                await socket.send_text(text)
        if patience.cancelled_caught:
            return _TRY_AGAIN_LATER, f"nothing was read for {STALLED_S:g} s; go on from your cursor"
    return _GOING_AWAY, "the server stops; go on from your cursor"


async def _cancel_when_gone(socket: WebSocket, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await socket.receive()  # nothing that a client sends is asked for
    except (WebSocketDisconnect, RuntimeError):
        scope.cancel()
