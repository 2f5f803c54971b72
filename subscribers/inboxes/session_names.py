"""The names of sessions: programs that were set up under the same name get a name each.

A session is a running program of an agent. The first that runs under a base name has it as its own
name, the next is `NAME-2`, and so on. The program's process holds its name, so it is free as soon
as that process has ended, and the next session takes the name, with its cursor; a session that its
program resumes takes its former name. Where no session has the base name any more, a running
session claims it, and gets its mail too.

Hooks look here after every tool: a name that is held already is read by one statement.
"""

from __future__ import annotations

from itertools import count

from ...bus.presence.session_name import SessionName, is_id, session_name
from ...schema.errors import BusBusy, BusUnusable, Refused, RowRefused
from ...schema.message.names import check_agent
from ...schema.process_table import runs
from ...schema.queries import Table
from .failed_deliveries import Cursors
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    #: The process whose session it is, and the connection to it, "" where it came by none.
    Holder = tuple[str, str]

#: How long a name is held whose process can't be seen from here, in seconds, unless it is renewed
#: or the heart of its session beats: the age at which an agent is taken for dead.
LEASE_S = 300.0


class SessionNames(Table):
    """The table `sessions`: the names of sessions, and the mail that each agent was shown.

    Checking that a name is free and taking it are one transaction.
    """

    def take(
        self,
        base: str,
        process: str,
        connection: str = "",
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
            process: `str` of the program's process.
            connection: to the process, where it is a server that the session came to.
            lease_s: how long it is held after this, in seconds, if its process can't be seen.
            timeout_s: how long to wait for other writers, in seconds; None: as the bus does.
            id: the id by which its program resumes it, if the program gives one.
            is_resumed: whether it was resumed just now, and has the name that it had if that is
                free.

        Raises:
            InvalidInput: the base name is not valid.
            BusBusy: other writers kept the bus for longer.
            BusUnusable, Refused: the bus can't be written.
            RowRefused: another program has left a row that breaks a rule. These errors are raised
                only for a session that has no name yet: other sessions keep their names.
        """
        holder, id = (process, connection), id if id and is_id(id) else ""
        current = self._lasting_name(base, holder, lease_s, id)
        if current is not None:
            return current
        check_agent(base)
        try:
            with self._engine.write(timeout_s):
                number = self._settle(base, holder, lease_s, id, is_resumed)
        except (BusBusy, BusUnusable, Refused, RowRefused):
            current = self.find(base, process, connection)
            if current is None:
                raise
            return current
        return next(session for session in self.list(base) if session.number == number)

    def find(self, base: str, process: str, connection: str = "") -> SessionName | None:
        """Return the name of a session; None if it has none."""
        sessions = [
            session for session in self.list(base) if session.is_held_by(process, connection)
        ]
        return max(sessions, key=lambda session: session.number, default=None)

    def above(self, processes: Iterable[str], base: str | None) -> SessionName | None:
        """Return the session of the first process that has one, under a base name or any name."""
        sessions = self.list()
        pairs = ((session, process) for process in processes for session in reversed(sessions))
        held_by_them = (session for session, process in pairs if session.is_held_by(process))
        return next(
            (session for session in held_by_them if base in (None, session.base, session.name)),
            None,
        )

    def named(self, name: str) -> SessionName | None:
        """Return the session that has a name, or had it last; None where none had."""
        rows = self._engine.rows(SQL["session_named"], (name,))
        if not rows:
            return None
        claims_base, *fields = rows[0]
        session = SessionName.parse(*fields)
        if session is not None:
            session.claims_base = bool(claims_base)
        return session

    def base_claimed_by(self, name: str) -> str | None:
        """Return the base name that a session claims besides its own; None where it does not."""
        if not name.rpartition("-")[2].isdigit():
            return None
        session = self.named(name)
        return session.base if session is not None and session.claims_base else None

    def leave(self, base: str, process: str, connection: str = "") -> None:
        """Free the names of a session that has ended. Safe to repeat."""
        with self._engine.write():
            ended = (base, process, connection, self._engine.now_ms())
            self._engine.change(SQL["end_sessions"], ended)

    def list(self, base: str | None = None) -> list[SessionName]:
        """Return the names of sessions, of those that have ended too, by base name and number."""
        if base is None:
            rows = self._engine.rows(SQL["sessions"])
        else:
            rows = self._engine.rows(SQL["sessions_of_base"], (base,))
        sessions = [session for row in rows if (session := SessionName.parse(*row)) is not None]
        firsts = {session.base: session for session in sessions if session.number == 1}
        for session in sessions:
            first = firsts.get(session.base)
            session.claims_base = (
                first is not None
                and first is not session
                and first.is_held_by(session.process, session.connection)
            )
        return sessions

    def bases(self) -> dict[str, str]:
        """Return the base name of each session name that differs from it."""
        return {session.name: session.base for session in self.list() if session.number > 1}

    def running(self, base: str) -> tuple[SessionName, ...]:
        """Return the sessions of a base name that are there, each by its own name."""
        live = [session for session in self.list(base) if self.is_live(session)]
        by_holder = {(session.process, session.connection): session for session in live}
        return tuple(by_holder.values())

    def is_live(self, session: SessionName) -> bool:
        """Whether a session is there: its process runs, and a connection was heard lately."""
        if session.process is None:
            return False
        process_runs = runs(session.process)  # None: it can't be seen from here
        if process_runs is False or (process_runs and not session.connection):
            return process_runs
        is_held = self._engine.now_ms() < session.until_ms
        if session.connection or is_held:
            return is_held
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

    def follow_clock_back(self, now_ms: int) -> None:
        """Move sessions that began in the future to now, each with the length of its lease."""
        self._engine.change(SQL["bring_sessions_nearer"], (now_ms,))

    def shown_to(self, agent: str) -> tuple[Any, ...]:
        """Return what an agent was shown, as `SeenMail.parse` takes it."""
        return self._engine.rows(SQL["shown_mail"], (agent,))[0]

    def note_shown(self, agent: str, notes: tuple[int, int, str, str], revision: int) -> bool:
        """Store what an agent was shown; False where something was noted since it was read.

        Args:
            agent: its name.
            notes: up to where mail was announced, below which seq broadcasts were counted, and
                what was shown whole and in part, in JSON.
            revision: the first field that `shown_to` returned.
        """
        values = (agent, *notes, revision, self._engine.now_ms())
        return bool(self._engine.change(SQL["note_shown"], values, synced=False))

    def _lasting_name(
        self, base: str, holder: Holder, lease_s: float, id: str
    ) -> SessionName | None:
        """Return the name of a session if it holds for long enough as it is stored; else None."""
        sessions = self.list(base)
        of_holder = [session for session in sessions if session.is_held_by(*holder)]
        half_over_ms = self._engine.now_ms() + lease_s * 500
        if (
            not of_holder
            or min(session.until_ms for session in of_holder) < half_over_ms
            or id not in ("", of_holder[-1].id)
        ):
            return None
        first = sessions[0]
        has_base = first.number == 1 and (first.is_held_by(*holder) or self.is_live(first))
        return of_holder[-1] if has_base or self._is_of_others(base, base) else None

    def _settle(self, base: str, holder: Holder, lease_s: float, id: str, is_resumed: bool) -> int:
        """Hold the name of a session, and the base name where it is free; return its number."""
        by_number = {session.number: session for session in self.list(base)}
        current = self.find(base, *holder)
        former = self._former_name(base, id) if is_resumed and id else None
        if former is not None and current is not None and current.number > 1:
            self._engine.change(SQL["free_session"], (current.name, self._engine.now_ms()))
        chosen = former or current
        number = self._first_free(base, by_number) if chosen is None else chosen.number
        if chosen is not current or current is None:
            self._begin(session_name(base, number), base)
        self._hold(base, number, holder, id or (current.id if current else ""), lease_s)
        first = by_number.get(1)
        is_free = not (first and not first.is_held_by(*holder) and self.is_live(first))
        if number > 1 and is_free and not self._is_of_others(base, base):
            self._hold(base, 1, holder, first.id if first else "", lease_s)
        return number

    def _former_name(self, base: str, id: str) -> SessionName | None:
        """Return the name that a session had before it was resumed; None if it is not free.

        A base name that another session only claims is free: that session has its own name.
        """
        sessions = self.list(base)
        former = [session for session in sessions if session.id == id]
        last = max(former, key=lambda session: session.begun_ms, default=None)
        if last is None:
            return None
        is_claimed = any(
            session.claims_base and session.is_held_by(last.process, last.connection)
            for session in sessions
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
        session = self.named(name)
        return session is not None and session.base != base and self.is_live(session)

    def _is_known(self, name: str) -> bool:
        return bool(self._engine.value(SQL["is_known"], (name,)))

    def _begin(self, name: str, base: str) -> None:
        """Make a session a reader: it begins at the base name's cursor, and misses no mail."""
        cursors = Cursors(self._engine)
        first = cursors.first_waiting(name, is_reader=False)
        begin = cursors.position(base)
        cursors.join(name, after_seq=begin if first is None else min(begin, first - 1))

    def _hold(self, base: str, number: int, holder: Holder, id: str, lease_s: float) -> None:
        now_ms = self._engine.now_ms()
        until_ms = now_ms + round(lease_s * 1000)
        row = (session_name(base, number), base, number, *holder, id, now_ms, until_ms)
        self._engine.change(SQL["hold_session"], row)
