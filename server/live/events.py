"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import Header, Request, Response
from starlette.types import Receive, Scope, Send

from ...bus import Bus, Wanted
from ..api.common import (
    After,
    MessageReader,
    OfAgent,
    OfConversation,
    OfType,
    TheBus,
    new_router,
    problems,
)
from .batches import Batch
from .clients import Client, Patience
from .cursors import begin_after
from .feed import Feed

router = new_router("live")

LastEventId = Annotated[str | None, Header(description="Wins over `after`.")]


class EventStream(Response):
    """A response that lasts until its client goes, stalls, or the server stops.

    A client that goes on asks with the id of the last event that it has, and misses nothing.
    """

    media_type = "text/event-stream"

    def __init__(self, client: Client, batches: AsyncIterator[Batch]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._client = client
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with self._client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                await self._send_all(send)
                tasks.cancel_scope.cancel()

    async def _send_all(self, send: Send) -> None:
        await send(_body(b"retry: 1000\n\n"))
        async for batch in self._batches:
            if not await self._client.gets(batch, partial(send, _body(batch.sse))):
                why = f": dropped: {self._client.reason}\n\n".encode()
                await self._client.drop(send(_body(why, more=False)))
                return
        await send(_body(b"", more=False))


def _body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    scope.cancel()


STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Events, one each message."}
}


@router.get(
    "/events", status_code=200, response_class=EventStream, responses=STREAM | problems(409)
)
async def events(
    request: Request,
    bus: TheBus,
    _: MessageReader,
    after: After | None = None,
    last_event_id: LastEventId = None,
    type: OfType = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
) -> Response:
    """Follow the messages as server-sent events: first those after a seq, then what comes.

    Without `after` it begins with what comes now. The id of an event is its message's seq. A
    payload that is a blob stays a reference to it.
    """
    return stream_of(request, bus, Wanted(type, conversation, agent), after, last_event_id)


def stream_of(
    request: Request, bus: Bus, wanted: Wanted, after: int | None, last_event_id: str | None
) -> EventStream:
    """Return the stream of what is wanted, from where its client says."""
    feed: Feed = request.app.state.feed
    begin = begin_after(bus, after, last_event_id)
    patience: Patience = request.app.state.patience
    batches = feed.stream(begin, wanted, keep_alive_s=patience.keep_alive_s)
    return EventStream(Client(request, "sse"), batches)
