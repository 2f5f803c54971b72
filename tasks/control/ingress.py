"""The way in for people's messages: answered here, or enqueued as a request for a planner."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...schema.errors import AckbusError, InvalidInput, Refused, shown
from .requests import Requests, ignore_event
from .sessions import SessionEvent, Sessions, wrong_in_command, wrong_in_message, wrong_in_payload
from .status import system_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Literal

    from ...bus.local_bus import LocalBus
    from ..records.sessions import Decision
    from .requests import Tell

    PriorityName = Literal["interactive", "normal", "background"]

# Posts into sessions: messages of people, events of agents, and approvals.

#: The decisions of a person, each with the event that tells it.
DECISIONS: Mapping[str, Decision] = {"approve": "approved", "deny": "denied"}

#: The speaker of a person's message.
CLIENT = "client"

_ROUTING = ("from", "to", "correlationId", "turnId", "parentId")


class NotPending(Refused):
    """No approval of this id waits for a decision."""


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
    ) -> SessionEvent:
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
    ) -> SessionEvent:
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

    def decide(self, approval: str, decision: object, *, sender: str = CLIENT) -> SessionEvent:
        """Store a person's decision, once, and tell the session.

        Args:
            approval: the id of the approval.
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
    ) -> SessionEvent:
        table = self._sessions.table
        pending = table.approval(approval)
        if pending is None or within not in (None, pending.session):
            raise NotPending(f"Approval not found: {shown(approval)}")
        if not table.decide(approval, decision):
            raise NotPending(f"Approval {shown(approval)} is {pending.decision} already")
        payload = {"approvalId": approval}
        return self._sessions.emit(pending.session, decision, payload, sender=sender)

    def _ask(self, session: str, call: Mapping[str, Any], sender: str) -> None:
        """Ask for approval of a call, if it is valid: an invalid call becomes an error event."""
        request = {
            "approvalId": call.get("toolCallId"),
            "action": "other",
            "summary": f"Tool call: {call.get('tool')}",
            "details": dict(call),
        }
        if not wrong_in_payload("tool_call", call):
            self._sessions.emit(session, "approval_required", request, sender=sender)


def _require(wrong: list[str]) -> None:
    if wrong:
        raise InvalidInput("; ".join(wrong)[:1000])


#: The word before a message that goes to a planner, whatever it says.
COMMAND = "/ask_remote_buddy"
USAGE = f"Usage: {COMMAND} <request>, as in: {COMMAND} fix the failing test of the parser"

#: The session of a message that names none.
SESSION = "dev"

#: A longer request can wait for others; a message up to the second length, without a word for work,
#: is answered here. In characters.
_LONG, _SHORT = 1_200, 120

#: The agent that answers here.
_SELF = "localbuddy"

_STATUS = re.compile(
    r"\b(status|progress|queue|queued|eta|where|hows my job|how'?s my job|what'?s my status"
    r"|check on)\b"
)
_DEEP = re.compile(
    r"\b(comprehensive|deep dive|full pass|phase\s+\d|architecture|migration|refactor|rewrite"
    r"|all components|everything)\b"
)
_WORK = re.compile(
    r"\b(add|build|change|create|debug|delete|edit|extend|fix|implement|improve|install|investigate"
    r"|merge|migrate|move|optimi[sz]e|refactor|remove|rename|replace|rewrite|run|test|update"
    r"|upgrade|write)\b"
)


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """The message of a person, parsed.

    Attributes:
        prompt: the text without the command.
        is_forced: whether a planner must get it.
    """

    prompt: str
    is_forced: bool


def parse_prompt(text: str) -> ParsedPrompt:
    """Parse a text into its prompt, and whether it begins with the command."""
    trimmed = text.strip()
    if not trimmed.lower().startswith(COMMAND):
        return ParsedPrompt(trimmed, False)
    rest = trimmed[len(COMMAND) :]
    return ParsedPrompt(re.sub(r"^\s*[:\-]\s*", "", rest).strip(), True)


def priority_of_prompt(text: str) -> PriorityName:
    """Return how urgent a request is by its words and its length."""
    lowered = text.strip().lower()
    if _STATUS.search(lowered):
        return "interactive"
    if _DEEP.search(lowered) or len(lowered) > _LONG:
        return "background"
    return "normal"


def is_answered_here(text: str) -> bool:
    """Whether a message needs no planner: it asks how things stand, or for nothing to be done."""
    lowered = text.strip().lower()
    if _STATUS.search(lowered):
        return True
    return not _WORK.search(lowered) and not _DEEP.search(lowered) and len(lowered) <= _SHORT


class Ingress:
    """Answers messages of people, or enqueues them as requests.

    Args:
        bus: an open bus.
        tell: tells a session of something.
    """

    def __init__(self, bus: LocalBus, tell: Tell = ignore_event) -> None:
        self._bus = bus
        self._tell = tell

    def check(self, body: Mapping[str, Any]) -> None:
        """Refuse a message without text.

        Raises:
            InvalidInput: it has no text.
        """
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text is required")

    def take(
        self,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield what becomes of a message: `status` as often as needed, then `complete` or `error`.

        What the session is told is stored before it is yielded.

        Args:
            body: `text`, and `sessionId` if there is one.
            agent: the agent that the client is bound to, as the sender; None: it is bound to none.
            trace: the trace context of the caller.
        """
        parsed = parse_prompt(str(body["text"]))
        session_id = body.get("sessionId")
        session = (session_id.strip() if isinstance(session_id, str) else "") or SESSION
        self._tell(session, "message", {"text": str(body["text"]).strip()}, agent or CLIENT, None)
        if parsed.is_forced and not parsed.prompt:
            yield {"type": "status", "message": "Command missing request body."}
            yield self._answered(session, USAGE, "local_usage_hint")
            return
        if not parsed.is_forced and is_answered_here(parsed.prompt):
            yield {"type": "status", "message": "Answering locally."}
            yield self._answered(session, self._words(parsed.prompt), "local")
            return
        yield {"type": "status", "message": "Enqueuing a request for the planner."}
        yield self._enqueued(session, parsed.prompt, agent or _SELF, trace)

    def _answered(self, session: str, words: str, mode: str) -> dict[str, Any]:
        self._tell(session, "assistant_message", {"text": words}, _SELF, None)
        data = {"mode": mode, "sessionId": session, "text": words}
        return {"type": "complete", "message": "Handled locally", "data": data}

    def _enqueued(
        self, session: str, prompt: str, agent: str, trace: Mapping[str, str] | None
    ) -> dict[str, Any]:
        priority = priority_of_prompt(prompt)
        request = {"sessionId": session, "prompt": prompt, "priority": priority}
        try:
            enqueued = Requests(self._bus, self._tell).enqueue(request, agent=agent, trace=trace)
        except AckbusError as error:
            return {"type": "error", "message": str(error)}
        data = {"mode": "enqueued", "sessionId": session, "priority": priority, **enqueued}
        return {"type": "complete", "message": "Request enqueued", "data": data}

    def _words(self, prompt: str) -> str:
        """Return an answer that needs no planner."""
        if not _STATUS.search(prompt.lower()):
            return f"To have something done, ask for it, or write {COMMAND} <request>."
        status = system_status(self._bus)
        workers, queues = status["workers"], status["queues"]
        waiting = ", ".join(
            f"{queues[name]['pending']} {name} wait and {queues[name]['claimed']} are in work"
            for name in ("requests", "jobs", "completions")
        )
        return f"{waiting}; {workers['online']} workers are online, {workers['idle']} of them idle."
