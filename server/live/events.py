"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from ...bus import Wanted
from ..access import needs
from ..api.common import After, TheBus
from ..principals import Principal
from ..principals import Scope as AccessScope
from ..problems import documented
from .batches import Batch
from .clients import Client, Patience
from .cursors import begin_after
from .feed import Feed

router = APIRouter(prefix="/v1", tags=["live"])

Reader = Annotated[Principal, Depends(needs(AccessScope.MESSAGES_RO))]


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
            if not await self._client.gets(batch, send(_body(batch.sse))):
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


async def the_feed(request: Request) -> Feed:
    """Return the feed of the application."""
    feed: Feed = request.app.state.feed
    return feed


@router.get(
    "/events",
    response_class=EventStream,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Events, one each message."},
        **documented(401, 403, 409, 422, 503),
    },
)
async def events(
    request: Request,
    bus: TheBus,
    feed: Annotated[Feed, Depends(the_feed)],
    _: Reader,
    after: After | None = None,
    last_event_id: Annotated[str | None, Header(description="Wins over `after`.")] = None,
    type: Annotated[str | None, Query(description="A pattern, like `task.*`.")] = None,
    agent: Annotated[str | None, Query(description="From or to this agent.")] = None,
    conversation: Annotated[str | None, Query(description="Its first message's id.")] = None,
) -> Response:
    """Follow the messages as server-sent events: first those after a seq, then what comes.

    Without `after` it begins with what comes now. The id of an event is its message's seq. A
    payload that is a blob stays a reference to it.
    """
    wanted = Wanted(type, conversation, agent)
    begin = begin_after(bus, after, last_event_id)
    patience: Patience = request.app.state.patience
    batches = feed.stream(begin, wanted, keep_alive_s=patience.keep_alive_s)
    return EventStream(Client(request, "sse"), batches)
