"""Sessions: a conversation as a person's client follows it, and speaks in it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response, WebSocket
from pydantic import Field

from ...bus.log.filters import Wanted
from ...schema.message.draft import Draft
from ...schema.message.names import new_id
from ..access.access import GuardedRouter, TheClient
from ..access.table import SERVER
from ..api.common import After, TheBus, TheTrace, new_router, problems
from ..api.messages import publish_all
from ..records import OR_BOUND, Id, Name, ReceiptRecord, RequestBody
from .streams import STREAM, EventStream, LastEventId, StreamStart, serve_socket, stream_of
from .streams import events_router as events
from .streams import router as sockets

#: The type of a person's message in a session, and its sender unless the client names one.
_TYPE, _SPEAKER = "message", "client"

router = new_router("sessions")
session_sockets = GuardedRouter(SERVER, prefix="/v1")

SessionId = Annotated[str, Path(min_length=1, max_length=255, description="Its conversation.")]


class SessionMessageBody(RequestBody):
    """A person's message in a session."""

    text: str = Field(description="The words.")
    intent: Any = Field(None, description="What is wanted, for agents; any JSON value.")
    from_agent: Name | None = Field(
        None, alias="from", description=f"The speaker; {OR_BOUND}, or else {_SPEAKER!r}."
    )
    to_agent: str | None = Field(None, alias="to", description="The recipient; none: all.")
    id: Id | None = Field(None, description="Saying it again then stores nothing.")


class SessionMessageReceipt(ReceiptRecord):
    """The receipt of a person's message, with its turn."""

    turn_id: str = Field(description="Its turn: what agents do about it may carry it on.")


@router.get(
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
    filters, row = Wanted(conversation=session), SERVER["GET /v1/sessions/{session}/events"]
    return stream_of(request, bus, filters, after, last_event_id, row=row)


@router.post(
    "/sessions/{session:path}/message",
    status_code=201,
    responses={
        200: {"model": SessionMessageReceipt, "description": "It was there already."},
        **problems(409, 413),
    },
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

ROUTERS = (events, sockets, router, session_sockets)
