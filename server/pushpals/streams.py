"""The events of a session as streams: replay from a cursor, then live, without a gap between.

All that is sent was read from what is stored; the live feed only says when to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import cached_property, partial
from typing import Annotated, Any, cast

import anyio
import anyio.to_thread
import orjson
from fastapi import Header, Request, Response, WebSocket
from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse

from ...bus.log.log import Criteria
from ...schema.errors import AckbusError
from ...schema.message.names import MAX_SEQ, new_id
from ...schema.paging import further
from ...schema.sqlite.rules.damaged_rows import damage_behind
from ...tasks.control.entries import whole_number
from ...tasks.control.ingress import CLIENT, DECISIONS, Ingress, Posts
from ...tasks.control.sessions import (
    PROTOCOL_VERSION,
    SessionEvent,
    SessionNotFound,
    Sessions,
)
from ..access.access import GuardedRouter, TheClient, authorize
from ..access.table import PUSHPALS
from ..access.tokens import Scope
from ..connections import ClientTimeouts
from ..feed import Batch, FeedEvent, LiveFeed, StreamClient, cut
from ..streams import EventStream, WebSocketTransport
from ..waiting import in_thread
from .common import (
    UNKNOWN,
    TheBody,
    TheBus,
    TheSessions,
    TheTeller,
    TheTrace,
    answer,
    name_in,
    ok,
    refusal,
)

router = GuardedRouter(PUSHPALS)

#: How many events are read at once, and by how many clients at a time.
_AT_ONCE, _READERS = 100, 4

#: The types of the messages that are events.
_TYPES = "session.>"

_readers = anyio.CapacityLimiter(_READERS)


class _Framed:
    """An event as it is sent."""

    __slots__ = ("line", "seq")

    def __init__(self, event: SessionEvent) -> None:
        self.seq = event.seq
        self.line = event.frame()


class _Batch(Batch):
    """Events of a session, each with its cursor."""

    @cached_property
    def sse(self) -> bytes:
        """The events as server-sent events; a comment when there are none."""
        if not self.events:
            return b": keepalive\n\n"
        return b"".join(b"id: %d\ndata: %b\n\n" % (event.seq, event.line) for event in self.events)


@router.get("/sessions/{id}/events", response_class=EventStream)
async def follow(
    request: Request,
    id: str,
    sessions: TheSessions,
    after: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Follow a session as server-sent events; the last event's id wins over `after`."""
    batches = await _events(request, sessions, id, last_event_id or after)
    return EventStream(request, batches, PUSHPALS["GET /sessions/{id}/events"])


@router.websocket("/sessions/{id}/ws")
async def follow_by_socket(socket: WebSocket, id: str) -> None:
    """Follow a session over WebSocket: each event a frame. What a client sends is discarded."""
    sessions: Sessions = socket.app.state.sessions
    row = PUSHPALS["WS /sessions/{id}/ws"]
    try:
        authorize(socket, row)
        batches = await _events(socket, sessions, id, socket.query_params.get("after"))
    except AckbusError as error:
        await socket.send_denial_response(refusal(error))
        return
    await socket.accept()
    await StreamClient(socket, "websocket", WebSocketTransport(socket), row).follow(batches)


async def _events(
    connection: HTTPConnection, sessions: Sessions, session: str, after: str | None
) -> AsyncGenerator[Batch, None]:
    """Return the events of a session, which must be there, after the cursor of a client."""
    begin = await in_thread(partial(sessions.begin, session, _cursor(after)))
    return _batches(connection, sessions, session, begin)


async def _batches(
    connection: HTTPConnection, sessions: Sessions, session: str, after: int
) -> AsyncGenerator[Batch, None]:
    """Yield the events after a cursor, each once, until the feed is over.

    Yields an empty batch when nothing came for a while.
    """
    feed: LiveFeed = connection.app.state.server.state.feed
    patience: ClientTimeouts = connection.app.state.patience
    loop = asyncio.get_running_loop()
    spoke = loop.time()
    while not feed.is_over:
        newest_seq = feed.newest_seq  # before the read: the feed announces what is stored after it
        read = partial(sessions.page, session, after, _AT_ONCE)
        page = await anyio.to_thread.run_sync(read, limiter=_readers)
        framed = cast("Iterator[FeedEvent]", map(_Framed, page.events))
        for batch in cut(framed, _Batch):
            yield batch
            spoke = loop.time()
        if not page.is_last:
            after = further("events of a session", after, page.upto)
            continue
        after = page.upto
        left_s = spoke + patience.keep_alive_s - loop.time()
        if left_s <= 0 or not await _hear(feed, newest_seq, left_s):
            yield _Batch((), after)
            spoke = loop.time()


async def _hear(feed: LiveFeed, after_seq: int, timeout_s: float) -> bool:
    """Wait for an event of any session after a seq; return False when the time is over."""
    async with aclosing(
        feed.stream(after_seq, Criteria(_TYPES), keep_alive_s=timeout_s)
    ) as batches:
        async for batch in batches:
            return bool(batch.events)
    return True  # the feed is over


def _cursor(text: str | None) -> int:
    """Return the cursor that a client names; a text that begins with no number is 0."""
    return min(max(0, whole_number(text) or 0), MAX_SEQ)


# Sessions: making them, posting into them, and a person's word.


@router.post("/sessions")
def create(body: TheBody, sessions: TheSessions) -> Response:
    """Make a session, 201, or join it, 200."""
    id, is_new = sessions.create(name_in(body, "sessionId"), label=name_in(body, "label"))
    status = 201 if is_new else 200
    return answer({"sessionId": id, "protocolVersion": PROTOCOL_VERSION}, status)


@router.post("/sessions/{id}/message")
def say(
    id: str, body: TheBody, sessions: TheSessions, trace: TheTrace, client: TheClient
) -> Response:
    """Store a person's message in a new turn."""
    sender = client.agent or CLIENT
    Posts(sessions).say(id, body, turn=new_id(), sender=sender, trace=trace)
    return ok()


@router.post("/sessions/{id}/command")
def command(
    id: str, body: TheBody, sessions: TheSessions, trace: TheTrace, agent: TheClient
) -> Response:
    """Store an event that an agent posts; 400 where its payload is invalid, and an error stored.

    An unknown session is 400 as well, as clients of PushPals expect it here.
    """
    sender = agent.work_as(name_in(body, "from") or agent.agent or UNKNOWN)
    if body.get("type") in DECISIONS.values():
        agent.require(Scope.TASKS_RW, why="to decide for a person: ")
    try:
        event = Posts(sessions).command(id, body, sender=sender, trace=trace)
    except SessionNotFound as error:
        return answer({"ok": False, "message": str(error)}, 400)
    if event.wrong:
        sentence = f"Failed to validate event: {'; '.join(event.wrong)}"
        return answer({"ok": False, "message": sentence[:1000], "eventId": event.id}, 400)
    return ok(eventId=event.id)


@router.post("/approvals/{id:path}")
def decide(id: str, body: TheBody, sessions: TheSessions, person: TheClient) -> Response:
    """Store a person's decision: once."""
    Posts(sessions).decide(id, body.get("decision"), sender=person.agent or CLIENT)
    return ok()


# The way in for people's messages, answered by a stream of events.


@router.post("/message")
def take(
    body: TheBody, bus: TheBus, tell: TheTeller, trace: TheTrace, person: TheClient
) -> Response:
    """Take a message in: `status` as often as needed, then `complete` or `error`."""
    ingress = Ingress(bus, tell)
    ingress.check(body)
    agent = person.agent

    events = ended_by_its_error(ingress.take(body, agent=agent, trace=trace))
    frames = (b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(frames, headers=headers, media_type="text/event-stream")


def ended_by_its_error(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream whose status is sent; an error becomes its last one.

    An error that nobody meant, and that no damaged row explains, is the server's.
    """
    try:
        yield from events
    except Exception as error:
        meant = damage_behind(error) or error
        if not isinstance(meant, AckbusError):
            raise
        yield {"type": "error", "message": str(meant)}
