"""Sessions: what a person's client follows, event by event, from any cursor on.

An event is a message of the bus with an envelope as its payload. It is stored first; streams read
what is stored.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import orjson

from ...schema.errors import AckbusError, InvalidInput, NotFound, shown
from ...schema.message.draft import Draft
from ...schema.message.ids import new_id
from ...schema.message.times import format_ts
from ..records.sessions import SessionTable
from ..steps.messages import TASKS
from .envelope import PROTOCOL_VERSION, wrong_in_envelope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ...bus.bus import Bus

#: How many events a page has, by default and at most.
PAGE, MAX_PAGE = 1000, 10_000

#: The sender of what the control plane itself tells.
TELLER = "server"

#: The services that make a session ready, and what is told when all of them are online.
SERVICES = ("localbuddy", "remotebuddy", "sourcecontrolmanager")
READY = "LocalBuddy, RemoteBuddy and SourceControlManager are online: ready."

#: Before the type of an event, in the type of its message.
_PREFIX = "session."

#: The fields of a payload that name what it is about.
_ABOUT = ("jobId", "requestId")

_ID = re.compile(r"[a-zA-Z0-9._-]{1,64}", re.ASCII)

_log = logging.getLogger("ackbus.tasks")


class SessionNotFound(NotFound):
    """There is no session of this id."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session as it is stored.

    Attributes:
        seq: its place in the log, and its cursor.
        envelope: what it tells; of an event that was invalid, the error in its place.
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
class Page:
    """Some events of a session, in order.

    Attributes:
        events: those that could be read.
        upto: the cursor after them: all up to it are here, but for those that are damaged.
        is_last: whether there were no more.
    """

    events: Sequence[Event]
    upto: int
    is_last: bool


class Sessions:
    """The sessions of a bus.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
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
    ) -> Event:
        """Store an event. One transaction; when it returns, the event is committed.

        Args:
            session, type, payload: of the event.
            sender: the agent that tells it.
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
    ) -> Event:
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
                told = {"message": "Failed to validate event", "detail": "; ".join(wrong)[:4000]}
                stored = self.emit(session, "error", told, sender=sender, about=about, trace=trace)
                return Event(stored.seq, stored.envelope, wrong)
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
            event = Event(receipt.seq, envelope)
            self._heed(session, event)
        return event

    def tell(
        self, session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None
    ) -> None:
        """Store an event of the control plane; a session that is not there is told nothing."""
        with self.bus.transaction():
            if self.table.exists(session):
                self.emit(session, type, payload, sender=sender, about=about)

    def begin(self, session: str, after: int) -> int:
        """Return the cursor after which a client begins: one that is ahead begins at 0.

        Raises:
            SessionNotFound: there is no such session.
        """
        self.require(session)
        return after if 0 < after <= self.table.newest_event(session) else 0

    def page(self, session: str, after: int = 0, limit: int = PAGE) -> Page:
        """Return the events of a session after a cursor, at most 10,000; those damaged are missing.

        Args:
            session: its id.
            after: the cursor of a client.
            limit: how many at most.
        """
        limit = min(max(1, limit), MAX_PAGE)
        seqs = self.table.events_after(session, after, limit)
        events = [event for seq in seqs if (event := self._read(seq)) is not None]
        return Page(events, seqs[-1] if seqs else after, len(seqs) < limit)

    def _read(self, seq: int) -> Event | None:
        try:
            message = self.bus.log.at(seq)
            envelope = None if message is None else message.payload
        except AckbusError as error:  # its blob is gone or altered, or its segment
            _log.warning("event %s of a session can't be read: %s", seq, error)
            return None
        if not isinstance(envelope, dict):
            _log.warning("event %s of a session is damaged: it has no envelope", seq)
            return None
        return Event(seq, envelope)

    def _parent(self, envelope: Mapping[str, Any], about: str | None) -> str | None:
        payload = envelope["payload"]
        for named in (about, envelope.get("parentId"), *map(payload.get, _ABOUT)):
            if isinstance(named, str) and named and self.bus.get(named) is not None:
                return named
        return None

    def _heed(self, session: str, event: Event) -> None:
        """Do what an event asks for: note an approval, tell that a session is ready."""
        payload = event.envelope["payload"]
        if event.envelope["type"] == "approval_required":
            self._note_approval(session, payload["approvalId"], event.seq)
        elif event.envelope["type"] == "status":
            self._note_status(session, payload)

    def _note_approval(self, session: str, approval: str, seq: int) -> None:
        """Note what an event asks approval for: under an id that nothing else was asked under."""
        if not approval:
            raise InvalidInput("approvalId must not be empty, nor toolCallId")
        asked = self.table.approval(approval)
        if asked is not None and (asked.session != session or asked.decision is not None):
            raise InvalidInput(
                f"Approval {shown(approval)} was asked for before; use another id for this one"
            )
        self.table.ask(approval, session, seq)

    def _note_status(self, session: str, payload: Mapping[str, Any]) -> None:
        named = re.sub(r"[^a-z0-9]", "", payload["agentId"].lower())
        service = next((each for each in SERVICES if named.startswith(each)), None)
        if service is None:
            return
        is_online = payload["state"] in ("idle", "busy")
        online = self.table.report(session, service, is_online=is_online)
        if online is not None and online.issuperset(SERVICES):
            told = self.emit(session, "assistant_message", {"text": READY})
            self.table.note_ready(session, told.seq)
