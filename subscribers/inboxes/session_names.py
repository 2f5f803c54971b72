"""The names of sessions: programs that were set up under the same name get a name each.

A session is a running program of an agent. The first that runs under a base name has it as its own
name, the next is `NAME-2`, and so on. A name is a lease that the program's process holds, so it is
free as soon as that process has ended, and the next session takes the name, with its cursor; a
session that its program resumes takes its former name. Where no session has the base name any more,
a running session claims it, and gets its mail too.

Hooks look here after every tool: a name that is held already is read by one statement.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from ...bus.presence.session_name import (
    ALL,
    SessionName,
    free_holder,
    is_id,
    lease_name,
    session_name,
    spans_of,
    suffix_of,
    with_id,
)
from ...schema.errors import BusBusy, BusUnusable, LeaseLost, Refused
from ...schema.message.names import check_agent
from ...schema.process_table import runs
from ...schema.queries import Table
from .failed_deliveries import Cursors
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...bus.presence.session_name import Span

#: How long a name is held whose process can't be seen from here, in seconds, unless it is renewed
#: or the heart of its session beats: the age at which an agent is taken for dead.
LEASE_S = 300.0

#: How much is left of the lease of a session that said that it ends, in milliseconds.
_END_MS = 1


class SessionNames(Table):
    """The names of sessions of a bus: leases, and the cursors that begin with them."""

    def take(
        self,
        base: str,
        holder: str,
        *,
        lease_s: float = LEASE_S,
        timeout_s: float | None = None,
        id: str | None = None,
        is_resumed: bool = False,
    ) -> SessionName:
        """Return the name of a session, which it keeps while it is there.

        Writes only where something is to change: the name or its id is new to it, half of its lease
        is over, or the base name is free and it claims that, too.

        Args:
            base: the name that was set up.
            holder: `str` of the program's process, or what `by_connection` returned.
            lease_s: how long it is held after this, in seconds, if its process can't be seen.
            timeout_s: how long to wait for other writers, in seconds; None: as the bus does.
            id: the id by which its program resumes it, if the program gives one.
            is_resumed: whether it was resumed just now, and has the name that it had if that is
                free.

        Raises:
            InvalidInput: the base name is not valid.
            BusBusy: other writers kept the bus for longer.
            BusUnusable, Refused: the bus can't be written. These errors are raised only for a
                session that has no name yet: other sessions keep their names.
        """
        id = id if id and is_id(id) else ""
        settled = self._settled(base, holder, lease_s, id)
        if settled is not None:
            return settled
        check_agent(base)
        try:
            with self._engine.write(timeout_s):
                number = self._settle(base, holder, lease_s, id, is_resumed)
        except (BusBusy, BusUnusable, Refused):
            current = self.find(base, holder)
            if current is None:
                raise
            return current
        return next(session for session in self.list(base) if session.number == number)

    def find(self, base: str, holder: str) -> SessionName | None:
        """Return the name of a session; None if it has none."""
        sessions = [session for session in self.list(base) if session.holder == holder]
        return max(sessions, key=lambda session: session.number, default=None)

    def above(self, processes: Iterable[str], base: str | None) -> SessionName | None:
        """Return the session of the first process that has one, under a base name or any name."""
        sessions = self.list()
        pairs = ((session, process) for process in processes for session in reversed(sessions))
        held_by_them = (session for session, process in pairs if session.holder == process)
        return next(
            (session for session in held_by_them if base in (None, session.base, session.name)),
            None,
        )

    def named(self, name: str) -> SessionName | None:
        """Return the session that has a name, or had it last; None where none had."""
        sessions = [session for session in self._under(name) if session.name == name]
        last = max(
            sessions, key=lambda session: (self.is_live(session), session.until_ms), default=None
        )
        if last is not None and last.number > 1:
            first = lease_name(last.base, 1)
            claims = [session.holder == last.holder for session in self._read((first, first))]
            last.claims_base = any(claims)
        return last

    def base_claimed_by(self, name: str) -> str | None:
        """Return the base name that a session claims besides its own; None where it does not."""
        if not name.rpartition("-")[2].isdigit():
            return None
        session = self.named(name)
        return session.base if session is not None and session.claims_base else None

    def leave(self, base: str, holder: str) -> None:
        """Free the names of a session that has ended. Safe to repeat."""
        from ...bus.leases import Leases

        with self._engine.write():
            for session in self.list(base):
                if session.holder == holder and session.until_ms > self._engine.now_ms():
                    with suppress(LeaseLost):  # it ends just now
                        Leases(self._engine).renew(session.lease(), lease_s=_END_MS / 1000)

    def list(self, base: str | None = None) -> list[SessionName]:
        """Return the names of sessions, of those that have ended too, by base name and number."""
        suffix = "" if base is None else suffix_of(base)
        sessions = [session for session in self._read(ALL, suffix) if base in (None, session.base)]
        firsts = {session.base: session.holder for session in sessions if session.number == 1}
        for session in sessions:
            is_first = session.number == 1
            session.claims_base = not is_first and firsts.get(session.base) == session.holder
        return sorted(sessions, key=lambda session: (session.base, session.number))

    def bases(self) -> dict[str, str]:
        """Return the base name of each session name that differs from it."""
        last = {
            session.name: session
            for session in sorted(self.list(), key=lambda session: session.token)
        }
        return {name: session.base for name, session in last.items() if session.number > 1}

    def running(self, base: str) -> tuple[SessionName, ...]:
        """Return the sessions of a base name that are there, each by its own name."""
        live = [session for session in self.list(base) if self.is_live(session)]
        return tuple({session.holder: session for session in live}.values())

    def is_live(self, session: SessionName) -> bool:
        """Whether a session is there: its process runs, and a connection was heard lately."""
        process_runs = runs(session.process)  # None: it can't be seen from here
        if process_runs is False or (process_runs and not session.has_connection):
            return process_runs
        now_ms = self._engine.now_ms()
        if session.has_connection or now_ms < session.until_ms:
            return now_ms < session.until_ms - _END_MS
        from ...bus.heartbeats import Heartbeats  # rarely needed

        beat = Heartbeats(self._engine).get(session.name)
        return beat is not None and beat.age_s < LEASE_S

    def traces(self, name: str) -> tuple[int | None, bool]:
        """Return the traces of a name, for hooks, which look no further if there are none.

        Returns:
            The process that beats under it, or None; and whether reservations are bound to a
            process, which may have ended.
        """
        pid, is_bound = self._engine.rows(SQL["traces_of_session"], (name, self._engine.now_ms()))[
            0
        ]
        return pid, bool(is_bound)

    def _under(self, name: str) -> Iterator[SessionName]:
        """Yield the sessions that may have a name, under any base name."""
        for span in spans_of(name):
            yield from self._read(span)

    def _read(self, span: Span, suffix: str = "") -> Iterator[SessionName]:
        for lease, *fields in self._engine.rows(SQL["session_leases"], (*span, suffix)):
            session = SessionName.parse(lease, *fields)
            if session is not None:
                yield session

    def _settled(self, base: str, holder: str, lease_s: float, id: str) -> SessionName | None:
        """Return the name of a session if nothing has to be written for it; else None."""
        sessions = self.list(base)
        of_holder = [session for session in sessions if session.holder == holder]
        half_over_ms = self._engine.now_ms() + lease_s * 500
        if (
            not of_holder
            or min(session.until_ms for session in of_holder) < half_over_ms
            or id not in ("", of_holder[-1].id)
        ):
            return None
        first = sessions[0]
        has_base = first.number == 1 and (first.holder == holder or self.is_live(first))
        return of_holder[-1] if has_base or self._is_of_others(base, base) else None

    def _settle(self, base: str, holder: str, lease_s: float, id: str, is_resumed: bool) -> int:
        """Hold the name of a session, and the base name where it is free; return its number."""
        by_number = {session.number: session for session in self.list(base)}
        current = self.find(base, holder)
        former = self._former_name(base, id) if is_resumed and id else None
        if former is not None and current is not None and current.number > 1:
            self._hold(base, current.number, current, free_holder(), _END_MS / 1000)
        chosen = former or current
        number = self._first_free(base, by_number) if chosen is None else chosen.number
        if chosen is not current or current is None:
            self._begin(session_name(base, number), base)
        by = with_id(holder, id or (current.id if current else ""))
        self._hold(base, number, by_number.get(number), by, lease_s)
        first = by_number.get(1)
        is_free = not (first and first.holder != holder and self.is_live(first))
        if number > 1 and is_free and not self._is_of_others(base, base):
            self._hold(base, 1, first, with_id(holder, first.id if first else ""), lease_s)
        return number

    def _former_name(self, base: str, id: str) -> SessionName | None:
        """Return the name that a session had before it was resumed; None if it is not free.

        A base name that another session only claims is free: that session has its own name.
        """
        sessions = self.list(base)
        former = [session for session in sessions if session.id == id]
        last = max(former, key=lambda session: session.token, default=None)
        if last is None or self._is_of_others(last.name, base):
            return None
        is_claimed = any(
            session.claims_base and session.holder == last.holder for session in sessions
        )
        is_free = (last.number == 1 and is_claimed) or not self.is_live(last)
        return last if is_free else None

    def _first_free(self, base: str, by_number: Mapping[int, SessionName]) -> int:
        """Return the first number that no session has, and whose name is no agent's name."""
        for number in count(1):
            name, last = session_name(base, number), by_number.get(number)
            if self._is_of_others(name, base):
                continue
            if last is not None:
                if not self.is_live(last):
                    return number
            elif number == 1 or not self._is_known(name):
                return number
        raise AssertionError

    def _is_of_others(self, name: str, base: str) -> bool:
        """Whether a session of another base name has a name: `a-2` may be a base name, too."""
        others = (
            session
            for session in self._under(name)
            if session.name == name and session.base != base
        )
        return any(map(self.is_live, others))

    def _is_known(self, name: str) -> bool:
        return bool(self._engine.value(SQL["is_known"], (name,)))

    def _begin(self, name: str, base: str) -> None:
        """Make a session a reader: it begins at the base name's cursor, and misses no mail."""
        cursors = Cursors(self._engine)
        first = cursors.first_waiting(name, is_reader=False)
        begin = cursors.position(base)
        cursors.join(name, after_seq=begin if first is None else min(begin, first - 1))

    def _hold(
        self, base: str, number: int, last: SessionName | None, by: str, lease_s: float
    ) -> None:
        from ...bus.leases import Leases  # hooks that change nothing don't need it

        leases = Leases(self._engine)
        if last is not None and last.held_by == by:
            with suppress(LeaseLost):  # it has ended
                leases.renew(last.lease(), lease_s=lease_s)
                return
        elif last is not None:
            with suppress(LeaseLost):  # as above
                leases.release(last.lease())
        leases.acquire(lease_name(base, number), by, lease_s=lease_s)
