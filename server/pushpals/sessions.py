"""Sessions: making them, posting into them, and a person's word."""

from __future__ import annotations

from fastapi import Response

from ...schema.message.ids import new_id
from ...tasks.control.approvals import CLIENT, DECISIONS, Posts
from ...tasks.control.envelope import PROTOCOL_VERSION
from ...tasks.control.sessions import SessionNotFound
from ..access.access import GuardedRouter, TheClient
from ..access.principals import Scope
from ..access.table import PUSHPALS
from .common import (
    UNKNOWN,
    TheBody,
    TheSessions,
    TheTrace,
    answer,
    name_in,
    ok,
)

router = GuardedRouter(PUSHPALS)


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
        told = f"Failed to validate event: {'; '.join(event.wrong)}"
        return answer({"ok": False, "message": told[:1000], "eventId": event.id}, 400)
    return ok(eventId=event.id)


@router.post("/approvals/{id:path}")
def decide(id: str, body: TheBody, sessions: TheSessions, person: TheClient) -> Response:
    """Store a person's decision: once."""
    Posts(sessions).decide(id, body.get("decision"), sender=person.agent or CLIENT)
    return ok()
