"""Sessions of people's clients, their events, and the approvals that are asked for in them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...schema.queries import Table
from .statements import SESSIONS as SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Decision = Literal["approved", "denied"]


@dataclass(frozen=True, slots=True)
class Approval:
    """Something that needs a person's word.

    Attributes:
        session: the session in which it was asked for.
        asked_seq: the event that asks.
        decision: None while it waits.
    """

    session: str
    asked_seq: int
    decision: Decision | None


class SessionTable(Table):
    """The tables `task_sessions`, `session_events` and `session_approvals`."""

    def add(self, session: str, label: str | None = None) -> bool:
        """Store a session; return False where it was there."""
        row = (session, self._engine.now_ms(), label)
        return self._engine.count_changes(SQL["add_session"], row) > 0

    def exists(self, session: str) -> bool:
        """Whether a session is there."""
        return self._engine.row(SQL["session"], (session,)) is not None

    def add_event(self, session: str, seq: int) -> None:
        """Note that a message is an event of a session.

        Raises:
            RowRefused: there is no such session.
        """
        self._engine.change(SQL["add_event"], (session, seq))

    def events_after(self, session: str, after: int, limit: int) -> list[int]:
        """Return the seqs of up to `limit` events of a session after a seq, in order."""
        return [seq for (seq,) in self._engine.rows(SQL["events_after"], (session, after, limit))]

    def newest_event(self, session: str) -> int:
        """Return the seq of the newest event of a session, 0 without one."""
        return self._engine.value(SQL["newest_event"], (session,)) or 0

    def report(self, session: str, service: str, *, is_online: bool) -> frozenset[str] | None:
        """Note whether a service is online in a session.

        Returns:
            All that are online; None where it was told already that all were.
        """
        row = self._engine.row(SQL["session"], (session,))
        if row is None or row[1] is not None:
            return None
        before = frozenset(json.loads(row[0]))
        after = before | {service} if is_online else before - {service}
        if after != before:
            self._engine.change(SQL["note_online"], (json.dumps(sorted(after)), session))
        return after

    def note_ready(self, session: str, seq: int) -> None:
        """Note the message that tells that all services are online."""
        self._engine.change(SQL["note_ready"], (seq, session))

    def ask(self, approval: str, session: str, seq: int) -> None:
        """Note the approval that an event asks for; one of the same id stays as it is."""
        self._engine.change(SQL["ask_approval"], (approval, session, seq))

    def approval(self, approval: str) -> Approval | None:
        """Return an approval by its id, or None."""
        row = self._engine.row(SQL["approval"], (approval,))
        return None if row is None else Approval(*row)

    def decide(self, approval: str, decision: Decision) -> bool:
        """Store a decision; False where there is one, or nothing waits."""
        return self._engine.count_changes(SQL["decide"], (decision, approval)) > 0
