"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Request, Response
from starlette.types import Receive, Scope, Send

from ...bus.bus import Bus
from ...bus.log.filters import Wanted
from ..access.rows import Row
from ..access.table import SERVER
from ..api.common import (
    After,
    OfAgent,
    OfConversation,
    OfType,
    TheBus,
    new_router,
    problems,
)
from ..client_timeouts import Patience
from ..disconnects import until_gone
from ..stream_start import begin_after
from .batches import Batch
from .clients import Client, End
from .feed import Feed

router = new_router("live")

LastEventId = Annotated[str | None, Header(description="Wins over `after`.")]


class EventStream(Response):
    """A response that lasts until its client disconnects, is dropped, or the server stops.

    A client that reconnects sends the id of its last event, and misses nothing.
    """

    media_type = "text/event-stream"

    def __init__(self, request: Request, batches: AsyncIterator[Batch], row: Row) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._request = request
        self._batches = batches
        self._row = row

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send(_body(b"retry: 1000\n\n"))
        wire = _Events(receive, send)
        await Client(self._request, "sse", wire, self._row).follow(self._batches)
        if not wire.is_closed:  # its client went, as clients do: whoever traces sees no error in it
            await send(_body(b"", more=False))


class _Events:
    """The transport of server-sent events to one client.

    Attributes:
        is_closed: whether its end was sent, or tried to.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.is_closed = False

    async def send(self, batch: Batch) -> None:
        await self._send(_body(batch.sse))

    async def close(self, end: End) -> None:
        """Send the end as a comment, for people: a browser's client reconnects anyway."""
        self.is_closed = True
        reason = " ".join(str(end).splitlines())
        await self._send(_body(f": ended: {reason}\n\n".encode(), more=False))

    async def gone(self) -> None:
        await until_gone(self._receive)


def _body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Events, one each message."}
}


@router.get(
    "/events", status_code=200, response_class=EventStream, responses=STREAM | problems(409)
)
async def events(
    request: Request,
    bus: TheBus,
    after: After | None = None,
    last_event_id: LastEventId = None,
    type: OfType = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
) -> Response:
    """Follow the messages as server-sent events: first those after a seq, then new ones.

    Without `after` it begins with new messages. The id of an event is its message's seq. A payload
    that is a blob stays a reference to it.
    """
    wanted, row = Wanted(type, conversation, agent), SERVER["GET /v1/events"]
    return stream_of(request, bus, wanted, after, last_event_id, row=row)


def stream_of(
    request: Request,
    bus: Bus,
    wanted: Wanted,
    after: int | None,
    last_event_id: str | None,
    *,
    row: Row,
) -> EventStream:
    """Return the stream of wanted messages, from the cursor that the client names.

    It ends when the client's token has lost a scope of the row.
    """
    feed: Feed = request.app.state.feed
    begin = begin_after(bus, after, last_event_id)
    patience: Patience = request.app.state.patience
    batches = feed.stream(begin, wanted, keep_alive_s=patience.keep_alive_s)
    return EventStream(request, batches, row)
