"""Sessions: what a person's client follows, event by event, from any cursor on.

An event is a message of the bus with an envelope as its payload. It is stored first; streams read
what is stored.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime

import orjson

from ...schema.errors import AckbusError, InvalidInput, NotFound, shown
from ...schema.message.draft import Draft
from ...schema.message.names import new_id
from ...schema.message.times import format_ts
from ..records.sessions import SessionTable
from ..steps.messages import TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus

    #: Yields what is wrong with a value, each with the way to it: `/level must be text`.
    Rule = Callable[[object], Iterator[str]]

# The envelopes of session events: their one version, their 28 types, and the rules of each.

#: The version of the protocol: envelopes of others are refused.
PROTOCOL_VERSION = "0.1.0"

_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def _text(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield " must be text"


def _flag(value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield " must be true or false"


def _any_object(value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield " must be an object"


def _date_time(value: object) -> Iterator[str]:
    if isinstance(value, str) and _DATE_TIME.fullmatch(value):
        try:
            datetime.fromisoformat(value.upper())
        except ValueError:
            pass
        else:
            return
    yield " must be a time like 2026-01-10T14:00:00Z"


def _one_of(*words: str) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if value not in words:
            yield f" must be one of {', '.join(words)}"

    return rule


def _number(low: float | None, high: float | None, *, is_whole: bool = False) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield " must be a number"
        elif is_whole and value != int(value):
            yield " must be a whole number"
        elif low is not None and value < low:
            yield f" must be at least {low:g}"
        elif high is not None and value > high:
            yield f" must be at most {high:g}"

    return rule


def _list_of(item: Rule) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if not isinstance(value, list):
            yield " must be a list"
            return
        for place, element in enumerate(value):
            yield from (f"/{place}{wrong}" for wrong in item(element))

    return rule


def _fields(needed: Mapping[str, Rule], allowed: Mapping[str, Rule] | None = None) -> Rule:
    """Return the rule of an object with these fields, and no others."""
    rules = {**needed, **(allowed or {})}

    def rule(value: object) -> Iterator[str]:
        if not isinstance(value, dict):
            yield " must be an object"
            return
        for name in needed:
            if name not in value:
                yield f"/{name} is missing"
        for name, member in value.items():
            if name in rules:
                yield from (f"/{name}{wrong}" for wrong in rules[name](member))
            else:
                yield f"/{str(name)[:40]} is not a field of it"

    return rule


_ARTIFACTS = {"artifacts": _list_of(_fields({"kind": _text}, {"uri": _text, "text": _text}))}
_DETAIL = {"detail": _text}
_ORIGIN = {"origin": _one_of("user", "autonomy")}
_SUGGESTION = {
    **dict.fromkeys(("id", "title", "detail"), _text),
    "effort": _one_of("S", "M", "L"),
}


def _texts(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, _text)


#: The rule of the payload of each type.
_PAYLOADS: dict[str, Rule] = {
    "log": _fields({"level": _one_of("debug", "info", "warn", "error"), "message": _text}),
    "scan_result": _fields(
        {**_texts("summary", "gitStatusPorcelain", "gitDiff"), "filesRead": _list_of(_text)}
    ),
    "suggestions": _fields({"items": _list_of(_fields(_SUGGESTION))}),
    "diff_ready": _fields(_texts("unifiedDiff", "diffStat", "branch")),
    "approval_required": _fields(
        {
            **_texts("approvalId", "summary"),
            "action": _one_of("git.commit", "git.push", "other"),
            "details": _any_object,
        }
    ),
    "approved": _fields(_texts("approvalId")),
    "denied": _fields(_texts("approvalId")),
    "committed": _fields(_texts("branch", "commitHash", "message")),
    "assistant_message": _fields(_texts("text")),
    "error": _fields(_texts("message"), _DETAIL),
    "done": _fields({"ok": _flag}),
    "agent_status": _fields(
        {"agentId": _text, "status": _one_of("idle", "busy", "error")}, _texts("message")
    ),
    "task_created": _fields(
        _texts("taskId", "title", "description", "createdBy"),
        {"priority": _text, "tags": _list_of(_text)},
    ),
    "task_started": _fields(_texts("taskId")),
    "task_progress": _fields(_texts("taskId", "message"), {"percent": _number(0, 100)}),
    "task_completed": _fields(_texts("taskId", "summary"), _ARTIFACTS),
    "task_failed": _fields(_texts("taskId", "message"), _DETAIL),
    "tool_call": _fields(
        {**_texts("toolCallId", "tool"), "args": _any_object},
        {"taskId": _text, "requiresApproval": _flag},
    ),
    "tool_result": _fields(
        {"toolCallId": _text, "ok": _flag},
        {
            **_texts("taskId", "stdout", "stderr"),
            "exitCode": _number(None, None, is_whole=True),
            **_ARTIFACTS,
        },
    ),
    "delegate_request": _fields({**_texts("requestId", "toAgentId"), "input": _any_object}),
    "delegate_response": _fields(
        {"requestId": _text, "ok": _flag}, {"output": _any_object, "error": _text}
    ),
    "job_enqueued": _fields(
        {**_texts("jobId", "taskId", "kind"), "params": _any_object},
        {**_ORIGIN, "autonomy": _any_object},
    ),
    "job_claimed": _fields(_texts("jobId", "workerId")),
    "job_completed": _fields(_texts("jobId"), {"summary": _text, **_ARTIFACTS, **_ORIGIN}),
    "job_failed": _fields(_texts("jobId", "message"), {**_DETAIL, **_ORIGIN}),
    "message": _fields(_texts("text"), {"intent": _any_object}),
    "job_log": _fields(
        {
            **_texts("jobId", "line"),
            "stream": _one_of("stdout", "stderr"),
            "seq": _number(1, None, is_whole=True),
        },
        {"ts": _date_time},
    ),
    "status": _fields(
        {"agentId": _text, "state": _one_of("idle", "busy", "error", "shutting_down")},
        {"uptimeMs": _number(0, None), "detail": _text},
    ),
}

_ROUTING = _texts("from", "to", "correlationId", "turnId", "parentId")

_type = _one_of(*_PAYLOADS)

_ENVELOPE = _fields(
    {
        "protocolVersion": _one_of(PROTOCOL_VERSION),
        "id": _text,
        "ts": _date_time,
        "sessionId": _text,
        "type": _type,
        "payload": _any_object,
    },
    {"traceId": _text, **_ROUTING},
)

_COMMAND = _fields({"type": _type, "payload": _any_object}, _ROUTING)
_SAID = _fields(_texts("text"), {"intent": _any_object})


def wrong_in_envelope(envelope: object) -> list[str]:
    """Return what is wrong with the envelope of an event; an empty list if nothing is."""
    problems = list(_ENVELOPE(envelope))
    if not problems and isinstance(envelope, dict):
        problems = wrong_in_payload(envelope["type"], envelope["payload"])
    return problems


def wrong_in_payload(type: str, payload: object) -> list[str]:
    """Return what is wrong with the payload of an event of a type, which is one of them."""
    return [f"/payload{wrong}" for wrong in _PAYLOADS[type](payload)]


def wrong_in_command(body: object) -> list[str]:
    """Return what is wrong with an event as an agent posts it, beside its payload's fields."""
    return list(_COMMAND(body))


def wrong_in_message(body: object) -> list[str]:
    """Return what is wrong with a person's message."""
    return list(_SAID(body))


#: How many events a page has, by default and at most.
PAGE, MAX_PAGE = 1000, 10_000

#: The sender of the control plane's own events.
TELLER = "server"

#: The services that make a session ready, and the message when all of them are online.
SERVICES = ("localbuddy", "remotebuddy", "sourcecontrolmanager")
READY = "LocalBuddy, RemoteBuddy and SourceControlManager are online: ready."

#: Before the type of an event, in the type of its message.
_PREFIX = "session."

#: The fields of a payload with the id of its request, job or approval.
_ABOUT = ("jobId", "requestId")

_ID = re.compile(r"[a-zA-Z0-9._-]{1,64}", re.ASCII)

_log = logging.getLogger("ackbus.tasks")


class SessionNotFound(NotFound):
    """There is no session of this id."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event of a session as it is stored.

    Attributes:
        seq: its place in the log, and its cursor.
        envelope: its content; in place of an invalid event, the error.
        wrong: what was wrong with the event; empty if nothing was.
    """

    seq: int
    envelope: Mapping[str, Any]
    wrong: Sequence[str] = ()

    @property
    def id(self) -> str:
        """The id of the envelope and of the message."""
        return str(self.envelope["id"])

    def frame(self) -> bytes:
        """Return the event as streams send it."""
        return orjson.dumps({"envelope": self.envelope, "cursor": self.seq})


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events of a session, in order.

    Attributes:
        events: those that could be read.
        upto: the cursor after them: all up to it are here, but for those that are damaged.
        is_last: whether there were no more.
    """

    events: Sequence[SessionEvent]
    upto: int
    is_last: bool


class Sessions:
    """The sessions of a bus.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self.bus = bus
        self.table = SessionTable.of(bus)

    def create(self, session: str | None = None, *, label: str | None = None) -> tuple[str, bool]:
        """Make a session, or join the one that is there.

        Args:
            session: its id; None draws one.
            label: a name for people.

        Returns:
            Its id, and whether it is new.

        Raises:
            InvalidInput: the id breaks its rule.
        """
        id = new_id() if session is None else session
        if not _ID.fullmatch(id):
            raise InvalidInput(
                f"Invalid sessionId {shown(id)}: it must have 1 to 64 of the characters"
                " a-z A-Z 0-9 . _ -"
            )
        return id, self.table.add(id, label)

    def require(self, session: str) -> None:
        """Refuse a session that is not there.

        Raises:
            SessionNotFound: it is not there.
        """
        if not self.table.exists(session):
            raise SessionNotFound(f"Session not found: {shown(session)}; make it by POST /sessions")

    def emit(
        self,
        session: str,
        type: str,
        payload: Mapping[str, Any],
        *,
        sender: str = TELLER,
        about: str | None = None,
        trace: Mapping[str, str] | None = None,
        **routing: str | None,
    ) -> SessionEvent:
        """Store an event. One transaction; when it returns, the event is committed.

        Args:
            session, type, payload: of the event.
            sender: the agent that publishes it.
            about: the id of a message that it is about, whose conversation it joins; None: what
                its payload names, if the log has that, else the session's own.
            trace: the trace context of the caller.
            routing: `to`, `correlationId`, `turnId`, `parentId` of the envelope; and `from`, where
                that is not the sender.

        Returns:
            The event; in place of an invalid one, the error that was stored.

        Raises:
            SessionNotFound: there is no such session; nothing was stored.
            InvalidInput: it asks for an approval that was asked for before; nothing was stored.
        """
        now_ms = self.bus.now_ms()
        envelope: dict[str, Any] = {
            "protocolVersion": PROTOCOL_VERSION,
            "id": new_id(),
            "ts": format_ts(now_ms),
            "sessionId": session,
            "type": type,
            "from": sender,
            **{name: value for name, value in routing.items() if value is not None},
            "payload": dict(payload),
        }
        return self.store(envelope, now_ms, about=about, trace=trace, sender=sender)

    def store(
        self,
        envelope: Mapping[str, Any],
        ts_ms: int | None = None,
        *,
        sender: str = TELLER,
        about: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> SessionEvent:
        """Store the envelope of an event, or an error in place of one that is invalid, as `emit`.

        Args:
            envelope: whole, with a session that is there.
            ts_ms: its time; None: the present.
            sender, about, trace: as for `emit`.
        """
        session = str(envelope.get("sessionId"))
        wrong = wrong_in_envelope(envelope)
        with self.bus.transaction():
            self.require(session)
            if wrong:
                payload = {"message": "Failed to validate event", "detail": "; ".join(wrong)[:4000]}
                stored = self.emit(
                    session, "error", payload, sender=sender, about=about, trace=trace
                )
                return SessionEvent(stored.seq, stored.envelope, wrong)
            draft = Draft(
                _PREFIX + str(envelope["type"]),
                envelope,
                from_agent=sender,
                to_agent=TASKS,
                id=str(envelope["id"]),
                headers=dict(trace) if trace else None,
                ts_ms=ts_ms,
            )
            draft.in_reply_to = self._parent(envelope, about)
            if draft.in_reply_to is None:
                draft.correlation_id = session
            (receipt,) = self.bus.log.append([draft])
            self.table.add_event(session, receipt.seq)
            event = SessionEvent(receipt.seq, envelope)
            self._heed(session, event)
        return event

    def tell(
        self, session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None
    ) -> None:
        """Store an event of the control plane; does nothing if the session does not exist."""
        with self.bus.transaction():
            if self.table.exists(session):
                self.emit(session, type, payload, sender=sender, about=about)

    def begin(self, session: str, after: int) -> int:
        """Return the cursor after which a client begins: 0 if its own is ahead of the session.

        Raises:
            SessionNotFound: there is no such session.
        """
        self.require(session)
        return after if 0 < after <= self.table.newest_event(session) else 0

    def page(self, session: str, after: int = 0, limit: int = PAGE) -> EventPage:
        """Return the events of a session after a cursor, at most 10,000, without damaged ones.

        Args:
            session: its id.
            after: the cursor of a client.
            limit: how many at most.
        """
        limit = min(max(1, limit), MAX_PAGE)
        seqs = self.table.events_after(session, after, limit)
        events = [event for seq in seqs if (event := self._read(seq)) is not None]
        return EventPage(events, seqs[-1] if seqs else after, len(seqs) < limit)

    def _read(self, seq: int) -> SessionEvent | None:
        try:
            message = self.bus.log.at(seq)
            envelope = None if message is None else message.payload
        except AckbusError as error:  # its blob is gone or altered, or its segment
            _log.warning("event %s of a session can't be read: %s", seq, error)
            return None
        if not isinstance(envelope, dict):
            _log.warning("event %s of a session is damaged: it has no envelope", seq)
            return None
        return SessionEvent(seq, envelope)

    def _parent(self, envelope: Mapping[str, Any], about: str | None) -> str | None:
        payload = envelope["payload"]
        for named in (about, envelope.get("parentId"), *map(payload.get, _ABOUT)):
            if isinstance(named, str) and named and self.bus.get(named) is not None:
                return named
        return None

    def _heed(self, session: str, event: SessionEvent) -> None:
        """Do what an event asks for: note an approval, tell that a session is ready."""
        payload = event.envelope["payload"]
        if event.envelope["type"] == "approval_required":
            self._note_approval(session, payload["approvalId"], event.seq)
        elif event.envelope["type"] == "status":
            self._note_status(session, payload)

    def _note_approval(self, session: str, approval: str, seq: int) -> None:
        """Note the approval that an event asks for; its id must not have been used for another."""
        if not approval:
            raise InvalidInput("approvalId must not be empty, nor toolCallId")
        earlier = self.table.approval(approval)
        if earlier is not None and (earlier.session != session or earlier.decision is not None):
            raise InvalidInput(
                f"Approval {shown(approval)} was asked for before; use another id for this one"
            )
        self.table.ask(approval, session, seq)

    def _note_status(self, session: str, payload: Mapping[str, Any]) -> None:
        named = re.sub(r"[^a-z0-9]", "", payload["agentId"].lower())
        service = next((name for name in SERVICES if named.startswith(name)), None)
        if service is None:
            return
        is_online = payload["state"] in ("idle", "busy")
        online = self.table.report(session, service, is_online=is_online)
        if online is not None and online.issuperset(SERVICES):
            event = self.emit(session, "assistant_message", {"text": READY})
            self.table.note_ready(session, event.seq)
