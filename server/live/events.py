"""Server-sent events."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from fastapi import Depends, Header, Request, Response
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
from .cursors import begin_after
from .feed import Event, Feed

#: How long a client may leave what it was sent unread before it is dropped, in seconds.
STALLED_S = 30.0
#: How often a client hears that the stream is alive, when nothing comes, in seconds.
KEEP_ALIVE_S = 15.0

_log = logging.getLogger("ackbus.server")

router = new_router("live")

LastEventId = Annotated[str | None, Header(description="Wins over `after`.")]


class EventStream(Response):
    """A response that lasts until its client goes, stalls, or the server stops.

    A client that goes on asks with the id of the last event that it has, and misses nothing.
    """

    media_type = "text/event-stream"

    def __init__(self, batches: AsyncIterator[list[Event]]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
            await self._send_all(scope, send)
            tasks.cancel_scope.cancel()

    async def _send_all(self, scope: Scope, send: Send) -> None:
        await send(_body(b"retry: 1000\n\n"))
        async for events in self._batches:
            with anyio.move_on_after(STALLED_S) as patience:
                await send(_body(_chunk(events)))
            if patience.cancelled_caught:
                _log.warning("dropped %s: it has read nothing for %g s", scope["client"], STALLED_S)
                return
        await send(_body(b"", more=False))


def _chunk(events: list[Event]) -> bytes:
    return b"".join(event.sse for event in events) or b": nothing new\n\n"


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


TheFeed = Annotated[Feed, Depends(the_feed)]

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Events, one each message."}
}


@router.get(
    "/events", status_code=200, response_class=EventStream, responses=STREAM | problems(409)
)
async def events(
    bus: TheBus,
    feed: TheFeed,
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
    return stream_of(bus, feed, Wanted(type, conversation, agent), after, last_event_id)


def stream_of(
    bus: Bus, feed: Feed, wanted: Wanted, after: int | None, last_event_id: str | None
) -> EventStream:
    """Return the stream of what is wanted, from where its client says."""
    begin = begin_after(bus, after, last_event_id)
    return EventStream(feed.stream(begin, wanted, keep_alive_s=KEEP_ALIVE_S))
