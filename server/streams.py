"""Live streams of messages, over WebSocket and as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from anyio.lowlevel import checkpoint
from fastapi import APIRouter, Header, Path, Request, Response, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.types import Receive, Scope, Send

from ..bus.local_bus import LocalBus
from ..bus.log.log import Criteria
from ..schema.errors import AckbusError, BusBusy, BusUnusable, InvalidInput
from ..schema.message.draft import Draft
from ..schema.message.names import MAX_SEQ, new_id
from .access.access import GuardedRouter, TheClient, authorize
from .access.table import SERVER, AccessRule
from .access.tokens import TooManyRequests
from .api.common import (
    After,
    OfAgent,
    OfConversation,
    OfType,
    TheBus,
    TheTrace,
    new_router,
    problems,
    published,
)
from .api.messages import publish_all
from .connections import ClientTimeouts
from .feed import Batch, LiveFeed, StreamClient, StreamEnd
from .problems import problem
from .records import DEFAULT_AGENT_TEXT, Id, Name, ReceiptRecord, RequestBody
from .waiting import begin_after, until_gone

#: The longest reason that a close frame has room for, in bytes.
_MAX_REASON_BYTES = 123

router = GuardedRouter(SERVER, prefix="/v1")
#: The route for paths that no other route has; it comes last.
nowhere = APIRouter()

_Text = Annotated[str, Field(min_length=1)]


class StreamStart(BaseModel):
    """The seq after which a stream begins. Unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[int, Field(ge=0, le=MAX_SEQ)] | None = None


class _StreamFilters(StreamStart):
    """The filters of a stream: the parameters of `/v1/events`."""

    type: _Text | None = None
    agent: _Text | None = None
    conversation: _Text | None = None


@router.websocket("/ws")
async def follow(socket: WebSocket) -> None:
    """Follow the messages; data from the client is discarded. Parameters as for `/v1/events`."""
    await serve_socket(socket, SERVER["WS /v1/ws"], _StreamFilters())


async def serve_socket(
    socket: WebSocket, row: AccessRule, default: StreamStart, **filters: Any
) -> None:
    """Send the wanted messages until the client disconnects, is dropped, or the server stops.

    Args:
        socket: the socket, not yet accepted.
        row: what it needs.
        default: its parameters, with the values of those that it leaves out.
        filters: further filters, which it can't change.
    """
    await socket.accept()  # a browser hears no reason before
    bus: LocalBus = socket.app.state.bus
    feed: LiveFeed = socket.app.state.feed
    patience: ClientTimeouts = socket.app.state.patience
    try:
        authorize(socket, row)
        asked = type(default).model_validate(default.model_dump() | _parameters(socket))
        message_filters = Criteria(**asked.model_dump(exclude={"after"}), **filters)
        begin = begin_after(bus, asked.after, None)
    except (AckbusError, ValidationError) as error:
        await WebSocketTransport(socket).close(_end(error))
        return
    batches = feed.stream(begin, message_filters, keep_alive_s=patience.keep_alive_s)
    await StreamClient(socket, "websocket", WebSocketTransport(socket), row).follow(batches)


@nowhere.websocket("/{path:path}")
async def find_nothing(socket: WebSocket) -> None:
    """Close a WebSocket of an unknown path with a reason, instead of a misleading 403."""
    detail = (
        f"{socket.url.path}: there is no such WebSocket; there are /v1/ws and those of sessions"
    )
    await socket.send_denial_response(problem(404, "not-found", detail))


def _parameters(socket: WebSocket) -> dict[str, str]:
    parameters = socket.query_params
    if len(parameters) < len(parameters.multi_items()):
        raise InvalidInput("a parameter is given more than once")
    return dict(parameters)


def _end(error: AckbusError | ValidationError) -> StreamEnd:
    """Return the end for a stream that could not begin."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return StreamEnd.refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    if isinstance(error, TooManyRequests):
        return StreamEnd.for_now(str(error))
    if isinstance(error, BusBusy | BusUnusable):
        return StreamEnd.failed(str(error))
    return StreamEnd.refused(str(error))


class WebSocketTransport:
    """The transport of WebSocket frames to one client."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, batch: Batch) -> None:
        """Send each message of a batch as a frame."""
        for text in batch.texts:
            await self._socket.send_text(text)
            await checkpoint()  # lets the task run that notices a disconnect

    async def close(self, end: StreamEnd) -> None:
        """Close the connection with the reason."""
        reason = str(end).encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        await self._socket.close(end.code, reason)

    async def gone(self) -> None:
        """Return when the client has disconnected."""
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await self._socket.receive()  # messages of the client are discarded


# Server-sent events.

events_router = new_router("live")

LastEventId = Annotated[str | None, Header(description="Wins over `after`.")]


class EventStream(Response):
    """A response that lasts until its client disconnects, is dropped, or the server stops.

    A client that reconnects sends the id of its last event, and misses nothing.
    """

    media_type = "text/event-stream"

    def __init__(self, request: Request, batches: AsyncIterator[Batch], row: AccessRule) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._request = request
        self._batches = batches
        self._row = row

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send(_body(b"retry: 1000\n\n"))
        wire = _EventTransport(receive, send)
        await StreamClient(self._request, "sse", wire, self._row).follow(self._batches)
        if not wire.is_closed:  # the client disconnected, which is no error for a trace
            await send(_body(b"", more=False))


class _EventTransport:
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

    async def close(self, end: StreamEnd) -> None:
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


@events_router.get(
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
    filters, row = Criteria(type, conversation, agent), SERVER["GET /v1/events"]
    return stream_of(request, bus, filters, after, last_event_id, row=row)


def stream_of(
    request: Request,
    bus: LocalBus,
    filters: Criteria,
    after: int | None,
    last_event_id: str | None,
    *,
    row: AccessRule,
) -> EventStream:
    """Return the stream of wanted messages, from the cursor that the client names.

    It ends when the client's token has lost a scope of the row.
    """
    feed: LiveFeed = request.app.state.feed
    begin = begin_after(bus, after, last_event_id)
    patience: ClientTimeouts = request.app.state.patience
    batches = feed.stream(begin, filters, keep_alive_s=patience.keep_alive_s)
    return EventStream(request, batches, row)


# Sessions: a conversation as a person's client follows it, and speaks in it.

#: The type of a person's message in a session, and its sender unless the client names one.
_TYPE, _SPEAKER = "message", "client"

sessions_router = new_router("sessions")
session_sockets = GuardedRouter(SERVER, prefix="/v1")

SessionId = Annotated[str, Path(min_length=1, max_length=255, description="Its conversation.")]


class SessionMessageBody(RequestBody):
    """A person's message in a session."""

    text: str = Field(description="The words.")
    intent: Any = Field(None, description="What is wanted, for agents; any JSON value.")
    from_agent: Name | None = Field(
        None, alias="from", description=f"The speaker; {DEFAULT_AGENT_TEXT}, or else {_SPEAKER!r}."
    )
    to_agent: str | None = Field(None, alias="to", description="The recipient; none: all.")
    id: Id | None = Field(None, description="Saying it again then stores nothing.")


class SessionMessageReceipt(ReceiptRecord):
    """The receipt of a person's message, with its turn."""

    turn_id: str = Field(description="Its turn: what agents do about it may carry it on.")


@sessions_router.get(
    "/sessions/{session:path}/events",
    status_code=200,
    response_class=EventStream,
    responses=STREAM | problems(409),
)
async def follow_session(
    request: Request,
    session: SessionId,
    bus: TheBus,
    after: After = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow a conversation from its beginning, or from a seq on, as server-sent events.

    It need not have begun: what is said in it first comes first.
    """
    filters, row = Criteria(conversation=session), SERVER["GET /v1/sessions/{session}/events"]
    return stream_of(request, bus, filters, after, last_event_id, row=row)


@sessions_router.post(
    "/sessions/{session:path}/message",
    status_code=201,
    responses=published(SessionMessageReceipt, "It was there already."),
)
async def speak_in_session(
    session: SessionId,
    body: SessionMessageBody,
    bus: TheBus,
    writer: TheClient,
    trace: TheTrace,
    response: Response,
) -> SessionMessageReceipt:
    """Publish a person's message in a conversation: of type `message`, in a new turn."""
    speaker = writer.own(body.from_agent) or _SPEAKER
    # A repeated message keeps its turn.
    turn_id = body.id or new_id()
    payload = {"text": body.text} | ({} if body.intent is None else {"intent": body.intent})
    draft = Draft(
        _TYPE,
        payload,
        from_agent=speaker,
        to_agent=body.to_agent,
        id=body.id,
        correlation_id=session,
        headers={"turn_id": turn_id},
    )
    (receipt,) = await publish_all(bus, [draft], trace, response)
    return SessionMessageReceipt(**receipt.model_dump(), turn_id=turn_id)


@session_sockets.websocket("/sessions/{session:path}/ws")
async def follow_session_by_socket(socket: WebSocket, session: str) -> None:
    """Follow a conversation over WebSocket; the same as its events."""
    row = SERVER["WS /v1/sessions/{session}/ws"]
    await serve_socket(socket, row, StreamStart(after=0), conversation=session)


# The routers of the live streams.

ROUTERS = (events_router, router, sessions_router, session_sockets)
