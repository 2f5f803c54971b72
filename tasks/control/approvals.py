"""Posts into sessions: messages of people, events of agents, and approvals."""

from __future__ import annotations

from ...schema.errors import InvalidInput, Refused, shown
from .envelope import wrong_in_command, wrong_in_message, wrong_in_payload
from .sessions import Event, Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..records.sessions import Decision

#: The decisions of a person, each with the event that tells it.
DECISIONS: Mapping[str, Decision] = {"approve": "approved", "deny": "denied"}

#: The speaker of a person's message.
CLIENT = "client"

_ROUTING = ("from", "to", "correlationId", "turnId", "parentId")


class NotPending(Refused):
    """Nothing waits for a person's word under this id, or it has one."""


class Posts:
    """Posts of clients and agents into sessions.

    Args:
        sessions: the sessions.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def say(
        self,
        session: str,
        body: Mapping[str, Any],
        *,
        turn: str,
        sender: str = CLIENT,
        trace: Mapping[str, str] | None = None,
    ) -> Event:
        """Store a person's message in a session.

        Args:
            session: its id.
            body: `text`, and `intent` if there is one.
            turn: the id of the turn that it begins.
            sender: the agent that posts it.
            trace: the trace context of the caller.

        Raises:
            InvalidInput: the body breaks a rule; nothing was stored.
            SessionNotFound: there is no such session.
        """
        _require(wrong_in_message(body))
        if not body["text"].strip():
            raise InvalidInput("text is required")
        routing = {"from": CLIENT, "turnId": turn}
        return self._sessions.emit(session, "message", body, sender=sender, trace=trace, **routing)

    def command(
        self,
        session: str,
        body: Mapping[str, Any],
        *,
        sender: str,
        trace: Mapping[str, str] | None = None,
    ) -> Event:
        """Store an event that an agent posts; one that needs approval asks for it before.

        Args:
            session: its id.
            body: `type` and `payload`, and how the event is routed.
            sender: the agent that posts it.
            trace: the trace context of the caller.

        Returns:
            The event; an error in place of one whose payload is invalid.

        Raises:
            InvalidInput: the type is unknown or the payload missing; nothing was stored.
            NotPending: a decision is posted, and nothing waits for it.
            SessionNotFound: there is no such session.
        """
        _require(wrong_in_command(body))
        type, payload = body["type"], body["payload"]
        routing = {name: body[name] for name in _ROUTING if body.get(name)}
        with self._sessions.bus.transaction():
            self._sessions.require(session)
            if type in DECISIONS.values() and isinstance(payload.get("approvalId"), str):
                return self._decide(payload["approvalId"], type, sender, within=session)
            if type == "tool_call" and payload.get("requiresApproval") is True:
                self._ask(session, payload, sender)
            return self._sessions.emit(
                session, type, payload, sender=sender, trace=trace, **routing
            )

    def decide(self, approval: str, decision: object, *, sender: str = CLIENT) -> Event:
        """Store a person's decision, once, and tell the session.

        Args:
            approval: the id of what waits for it.
            decision: `approve` or `deny`.
            sender: who decides.

        Raises:
            InvalidInput: there is no such decision.
            NotPending: nothing waits under this id, or it was decided before.
        """
        if not isinstance(decision, str) or decision not in DECISIONS:
            raise InvalidInput("Invalid decision value: say approve or deny")
        with self._sessions.bus.transaction():
            return self._decide(approval, DECISIONS[decision], sender)

    def _decide(
        self, approval: str, decision: Decision, sender: str, within: str | None = None
    ) -> Event:
        table = self._sessions.table
        asked = table.approval(approval)
        if asked is None or within not in (None, asked.session):
            raise NotPending(f"Approval not found: {shown(approval)}")
        if not table.decide(approval, decision):
            raise NotPending(f"Approval {shown(approval)} is {asked.decision} already")
        told = {"approvalId": approval}
        return self._sessions.emit(asked.session, decision, told, sender=sender)

    def _ask(self, session: str, call: Mapping[str, Any], sender: str) -> None:
        """Ask for approval of a call, if that is one: the event of another will be an error."""
        asked = {
            "approvalId": call.get("toolCallId"),
            "action": "other",
            "summary": f"Tool call: {call.get('tool')}",
            "details": dict(call),
        }
        if not wrong_in_payload("tool_call", call):
            self._sessions.emit(session, "approval_required", asked, sender=sender)


def _require(wrong: list[str]) -> None:
    if wrong:
        raise InvalidInput("; ".join(wrong)[:1000])
