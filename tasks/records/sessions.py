"""Sessions of people's clients, their events, and the approvals that are asked for in them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...schema.message.names import new_id
from ...schema.queries import Table
from .task_table import CONTROL
from .task_table import SESSIONS as SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Decision = Literal["approved", "denied"]


@dataclass(frozen=True, slots=True)
class Approval:
    """Something that needs a person's decision.

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
            All services that are online; None: the session was already reported ready, or there is
            no such session.
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
        """Note the approval that an event asks for, unless one of its id is stored already."""
        self._engine.change(SQL["ask_approval"], (approval, session, seq))

    def approval(self, approval: str) -> Approval | None:
        """Return an approval by its id, or None."""
        row = self._engine.row(SQL["approval"], (approval,))
        return None if row is None else Approval(*row)

    def decide(self, approval: str, decision: Decision) -> bool:
        """Store a decision; False: there is one, or there is no such approval."""
        return self._engine.count_changes(SQL["decide"], (decision, approval)) > 0


# The dispatch lock of autonomous planners, and what they keep: states and snapshots.

#: How long the lock is held unless it is renewed, at least and by default, in milliseconds.
MIN_TTL_MS, TTL_MS = 5_000, 60_000
#: How long the lock is held at most unless it is renewed, in milliseconds: a day.
MAX_TTL_MS = 86_400_000

#: How long snapshots are kept, in milliseconds: 30 days.
KEPT_MS = 30 * 86_400_000

#: How long a snapshot is good for unless its maker says otherwise, in milliseconds.
SNAPSHOT_TTL_MS = 900_000


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The dispatch lock while it is held.

    Attributes:
        session, run: of the owner.
        acquired_at_ms, expires_at_ms, updated_at_ms: in epoch milliseconds.
    """

    session: str
    run: str
    acquired_at_ms: int
    expires_at_ms: int
    updated_at_ms: int

    def since(self, now_ms: int) -> HeldLock:
        """Return a lock that a clock ahead of ours has stored, as if it had been renewed now."""
        ends_ms = now_ms + self.expires_at_ms - self.updated_at_ms
        return HeldLock(self.session, self.run, min(self.acquired_at_ms, now_ms), ends_ms, now_ms)


class DispatchLock(Table):
    """The table `dispatch_lock`: one row while a run may dispatch work, otherwise none."""

    def holder(self) -> HeldLock | None:
        """Return the lock as it is held now, or None. A lock that has expired is dropped."""
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.change(CONTROL["drop_expired_lock"], (now_ms,))
            row = self._engine.row(CONTROL["dispatch_lock"])
            lock = None if row is None else HeldLock(*row)
            if lock is not None and lock.updated_at_ms > now_ms:
                lock = lock.since(now_ms)
                self._store(lock)
            return lock

    def acquire(
        self,
        session: str,
        run: str,
        *,
        ttl_ms: int | None = None,
        stale_after_ms: int | None = None,
    ) -> tuple[bool, HeldLock]:
        """Acquire the lock if it is free, or held by this run. One transaction.

        Args:
            session, run: the new owner.
            ttl_ms: how long it lasts unless it is renewed, 5,000 ms at least.
            stale_after_ms: how long another run of the same session may go without renewing the
                lock before this run replaces it; None: for ever.

        Returns:
            Whether the lock is this run's now, and the lock as it is held.
        """
        with self._engine.write():
            now_ms = self._engine.now_ms()
            lock = self.holder()
            if lock is not None and not _may_take(lock, session, run, now_ms, stale_after_ms):
                return False, lock
            is_mine = lock is not None and (lock.session, lock.run) == (session, run)
            begun_ms = lock.acquired_at_ms if lock is not None and is_mine else now_ms
            acquired = HeldLock(session, run, begun_ms, now_ms + _ttl(ttl_ms), now_ms)
            self._store(acquired)
            return True, acquired

    def renew(
        self, session: str, run: str, *, ttl_ms: int | None = None
    ) -> tuple[bool, HeldLock | None]:
        """Extend the lock that this run holds; else change nothing. One transaction.

        Returns:
            Whether it was extended, and the lock as it is held; None where nobody has it.
        """
        with self._engine.write():
            now_ms = self._engine.now_ms()
            lock = self.holder()
            if lock is None or (lock.session, lock.run) != (session, run):
                return False, lock
            renewed = HeldLock(session, run, lock.acquired_at_ms, now_ms + _ttl(ttl_ms), now_ms)
            self._store(renewed)
            return True, renewed

    def release(self, session: str, run: str) -> bool:
        """Release the lock if this run holds it; return whether it did."""
        return self._engine.count_changes(CONTROL["release_lock"], (session, run)) > 0

    def _store(self, lock: HeldLock) -> None:
        row = (lock.session, lock.run, lock.acquired_at_ms, lock.expires_at_ms, lock.updated_at_ms)
        self._engine.change(CONTROL["hold_lock"], row)


def _may_take(
    lock: HeldLock, session: str, run: str, now_ms: int, stale_after_ms: int | None
) -> bool:
    if lock.session != session:
        return False
    is_stale = stale_after_ms is not None and now_ms - lock.updated_at_ms >= stale_after_ms
    return lock.run == run or is_stale


def _ttl(ttl_ms: int | None) -> int:
    return min(max(MIN_TTL_MS, TTL_MS if ttl_ms is None else ttl_ms), MAX_TTL_MS)


@dataclass(frozen=True, slots=True)
class AutonomySnapshot:
    """The facts that a planner saw before it decided.

    Attributes:
        id: its name.
        session, run: of the planner; run may be empty.
        created_at_ms, ttl_ms: when it was made, and for how long it is good.
        dispatch_lock_held: whether its run held the dispatch lock then.
        payload: what it saw.
    """

    id: str
    session: str
    run: str
    created_at_ms: int
    ttl_ms: int
    dispatch_lock_held: bool
    payload: dict[str, Any]


class Autonomy(Table):
    """The tables `autonomy_state` and `autonomy_snapshots`."""

    def set_state(self, session: str, state: dict[str, Any]) -> None:
        """Store the state of a session's planner, over the one before."""
        row = (session, json.dumps(state), self._engine.now_ms())
        self._engine.change(CONTROL["set_autonomy_state"], row)

    def state(self, session: str) -> dict[str, Any] | None:
        """Return the state of a session's planner, or None."""
        text = self._engine.value(CONTROL["autonomy_state"], (session,))
        state: dict[str, Any] | None = None if text is None else json.loads(text)
        return state

    def add_snapshot(
        self, session: str, run: str, payload: dict[str, Any], *, ttl_ms: int = SNAPSHOT_TTL_MS
    ) -> AutonomySnapshot:
        """Store a snapshot, with whether the run holds the dispatch lock now."""
        with self._engine.write():
            lock = DispatchLock(self._engine).holder()
            is_held = lock is not None and (lock.session, lock.run) == (session, run)
            snapshot = AutonomySnapshot(
                new_id(), session, run, self._engine.now_ms(), ttl_ms, is_held, payload
            )
            row = (snapshot.id, session, run, snapshot.created_at_ms, ttl_ms, int(is_held))
            self._engine.change(CONTROL["add_snapshot"], (*row, json.dumps(payload)))
            self.prune(snapshot.created_at_ms - KEPT_MS, 10)  # one comes, up to ten go
        return snapshot

    def snapshot(self, id: str) -> AutonomySnapshot | None:
        """Return a snapshot, or None."""
        row = self._engine.row(CONTROL["snapshot"], (id,))
        if row is None:
            return None
        name, session, run, created_at_ms, ttl_ms, is_held, payload = row
        return AutonomySnapshot(
            name, session, run, created_at_ms, ttl_ms, bool(is_held), json.loads(payload)
        )

    def prune(self, before_ms: int, limit: int = 500) -> int:
        """Delete some snapshots that were made before a time, and return how many."""
        return self._engine.count_changes(CONTROL["prune_snapshots"], (before_ms, limit))
