"""Reservations: the files that each agent edits, until when, so that no two edit the same.

They are leases on patterns of paths: the same clock, the same length at most, and fencing tokens
from the same counter. A pattern holds for the paths that it matches and everything below them. One
that was made in a session ends with that session's process.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import islice

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, LeaseLost
from ...schema.message.names import MAX_REASON_CHARS, check_agent, check_line
from ...schema.message.times import format_ts
from ...schema.queries import Table
from ..leases import Leases, duration_ms_of
from ..statements import SQL
from .live_rows import LiveReservations, bind_to_session, ended_sessions, forget_ended
from .path_patterns import PathIndex, PathPattern, escape_path, literal_pattern, parse_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..options import ReservationMode

# The conversion of paths that people type into paths from the root of the project.

#: The syntax of other globs that these lack; `!` before a whole glob is refused too.
_ALTERNATIVES = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")


def project_root(bus_directory: str) -> str:
    """Return the folder from which reserved paths count, for the working directory.

    That is the work tree of git around it (git itself need not be asked), or else the folder that
    holds the bus directory.

    Raises:
        InvalidInput: the working directory is in neither.
    """
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):  # a file in linked work trees
        parent = os.path.dirname(folder)
        if parent == folder:
            return _holder_of_the_bus(here, bus_directory)
        folder = parent
    return folder


def paths_from_root(text: str, root: str) -> list[str]:
    """Return a path or a glob relative to the root of the project.

    It counts from the root already, wherever the command runs, unless it is absolute or begins
    with `./` or `../`, which is from here. A folder or file that is there is meant as it is called,
    though its name looks like a glob, as in `app/[id]/page.tsx`; links are followed. A link that is
    named itself can be edited as such, too: then there are two paths, its own and where it leads.

    Raises:
        InvalidInput: it is outside of the project, or can't be parsed.
    """
    if os.path.isabs(text):
        path = _below(root, os.path.normpath(text)) or _below(root, os.path.realpath(text))
    elif text.split("/")[0] in (".", ".."):
        path = _below(root, os.path.normpath(os.path.join(os.getcwd(), text)))
    else:
        path = text
    if path is None:
        raise InvalidInput(f"path {text!r} is outside of the project {root}")
    parts = [part for part in path.split("/") if part] or [""]
    there, reached = 0, root
    for part in parts:
        if part in ("", "..") or not os.path.lexists(os.path.join(reached, part)):
            break
        there, reached = there + 1, os.path.join(reached, part)
    if _ALTERNATIVES.search("/".join(parts[there:])) or (not there and path.startswith("!")):
        raise InvalidInput(
            f"path {text!r}: globs here have no {{a,b}}, and no ! before them; give each path by"
            " itself, or write \\{ and \\! for the characters"
        )
    # A file has one name here, however many links lead to it. A link out of the project is a file.
    files = [os.path.realpath(reached)] if there else []
    if there == len(parts) and os.path.islink(reached):
        folder, name = os.path.split(reached)
        files.insert(0, os.path.join(os.path.realpath(folder), name))
    below = [path.split("/") for path in (_below(root, file) for file in files) if path is not None]
    return [
        parse_pattern("/".join([*map(escape_path, names), *parts[there:]])).text
        for names in below or [parts[:there]]
    ]


def note_for(text: str, root: str) -> str | None:
    """Return a warning for a path that may have meant a file of this folder, or None.

    In a folder below the root, `a.py` stands for the file at the root. Where that is missing, and
    `a.py` is here, the user most likely meant the file here; the shell expands `*.py` so, too.
    """
    here = os.getcwd()
    if here == root or text.split("/")[0] in ("", ".", ".."):
        return None
    if os.path.lexists(os.path.join(root, text)) or not os.path.lexists(text):
        return None
    return f"warning: {text} counts from {root}, where it is not; for the one here write ./{text}"


def _holder_of_the_bus(here: str, bus_directory: str) -> str:
    holder = os.path.realpath(os.path.dirname(bus_directory))
    if _below(holder, here) is None:
        raise InvalidInput(
            f"{here} is in no git repository and not beside the bus in {bus_directory}; run this"
            " in the project whose files are meant"
        )
    return holder


def _below(root: str, path: str) -> str | None:
    """Return a path from a folder above it, or None when it is not below it."""
    for base in (root, os.path.realpath(root)):
        if path == base:
            return "."
        if path.startswith(base.rstrip("/") + "/"):
            return path[len(base.rstrip("/")) + 1 :]
    return None


#: How long a reservation lasts unless the caller says otherwise, in seconds: an hour.
DEFAULT_RESERVATION_S = 3600.0

#: The most paths that one call reserves: more would keep other writers waiting.
MAX_PATHS = 1000

#: The most conflicts that are looked for: thousands help nobody, and take long to find.
MAX_CONFLICTS = 100

#: The modes: `exclusive`, no other agent may edit; `shared`, others may that reserve it shared.
EXCLUSIVE, SHARED = "exclusive", "shared"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A granted reservation.

    Attributes:
        path: the pattern, from the root of the project.
        agent: the editing agent.
        mode: `exclusive` or `shared`.
        token: the fencing token; a later grant of any lease or reservation has a larger token.
        reserved_at_ms: when it was granted, in epoch milliseconds.
        until_ms: when it ends unless it is renewed; at that very millisecond it has ended.
        reason: why, for people, or None.
        session: the process of the session that it was made in, with which it ends; None: it ends
            at its time alone.
    """

    path: str
    agent: str
    mode: ReservationMode
    token: int
    reserved_at_ms: int
    until_ms: int
    reason: str | None
    session: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "path": self.path,
            "agent": self.agent,
            "mode": self.mode,
            "token": self.token,
            "reserved": format_ts(self.reserved_at_ms),
            "until": format_ts(self.until_ms),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path of a request, and the reservation that conflicts with it."""

    path: str
    held: Reservation


@dataclass(frozen=True, slots=True)
class ReserveResult:
    """The result of reserving.

    Attributes:
        granted: whether all paths were reserved; else nothing was changed.
        reservations: the agent's reservations of the paths, one for each path.
        conflicts: at most `MAX_CONFLICTS` conflicts; empty when it was granted.
    """

    granted: bool
    reservations: list[Reservation]
    conflicts: list[Conflict]


@with_checked_arguments
class Reservations(Table):
    """The reservations of files: the table `reservations`. Ended reservations have no effect."""

    def reserve(
        self,
        paths: Sequence[str],
        agent: str,
        *,
        shared: bool = False,
        lease_s: float = DEFAULT_RESERVATION_S,
        reason: str | None = None,
        session: str | None = None,
    ) -> ReserveResult:
        """Reserve all of these paths, or none.

        Globs are compared before the bus is locked for writing, which would delay all publishers;
        under the lock, only with reservations granted since. So no conflict is missed.

        An agent never conflicts with itself: its own reservation is extended to `lease_s` from now,
        if that is longer, and keeps its token; in another mode it is a new grant with a new token.

        Args:
            paths: paths and globs from the root of the project, at most 1,000.
            agent: the editing agent.
            shared: whether others may reserve the files shared too.
            lease_s: how long, in seconds; at most a day.
            reason: why, for people.
            session: the process with which the reservations end, as `str` of a `Process`; None:
                they end at their time alone. A reservation that another process extends does so.

        Raises:
            InvalidInput: an argument breaks a rule.
            BusBusy: other writers kept the bus for too long; nothing was reserved.
        """
        patterns = _patterns(paths)
        check_agent(agent)
        if reason is not None:
            check_line(reason, "a reason", MAX_REASON_CHARS)
        duration_ms = duration_ms_of(lease_s)
        mode = SHARED if shared else EXCLUSIVE
        before = self._live_by_own_clock()
        if conflicts := _conflicts(patterns, agent, mode, before):
            return ReserveResult(False, [], conflicts)
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.rows(SQL["end_expired_reservations"], (now_ms,))
            forget_ended(self._leases)
            keys = {_key(live) for live in before}
            since = [live for live in self._live(now_ms) if _key(live) not in keys]
            if conflicts := _conflicts(patterns, agent, mode, since):
                return ReserveResult(False, [], conflicts)
            terms = (agent, mode, now_ms + duration_ms, reason)
            grants = [self._grant((pattern.text, *terms), now_ms, session) for pattern in patterns]
        return ReserveResult(True, grants, [])

    def _live_by_own_clock(self) -> Sequence[Reservation]:
        """Return the reservations that hold now; where the clock was set back, they follow it."""
        now_ms = self._engine.now_ms()
        live = self._live(now_ms)
        if not any(reservation.reserved_at_ms > now_ms for reservation in live):
            return live
        self.follow_clock_back()
        return self._live(now_ms)

    def renew(
        self, token: int, agent: str, *, lease_s: float = DEFAULT_RESERVATION_S
    ) -> Reservation:
        """Extend a reservation to `lease_s` from now. Safe to repeat.

        Raises:
            LeaseLost: it has ended, was released, or is another agent's; nothing was changed.
        """
        duration_ms = duration_ms_of(lease_s)
        with self._engine.write():
            now_ms = self._engine.now_ms()  # here: waiting for the lock must not shorten it
            reservation = self._of_token(token)
            key = (now_ms + duration_ms, token, agent, now_ms)
            is_over = reservation is not None and ended_sessions()(reservation.session)
            if is_over or not self._engine.rows(SQL["renew_reservation"], key):
                raise self._lost(token, agent, now_ms)
            if reservation is not None and reservation.session is not None:
                bind_to_session(self._leases, token, reservation.session, lease_s)
            return Reservation(*self._engine.rows(SQL["reservation_of_token"], (token,))[0])

    def release(self, token: int, agent: str) -> None:
        """Release a reservation.

        Raises:
            LeaseLost: as for `renew`; also when it was released before.
        """
        with self._engine.write():
            now_ms = self._engine.now_ms()
            if not self._engine.rows(SQL["release_reservation"], (token, agent, now_ms)):
                raise self._lost(token, agent, now_ms)
            bind_to_session(self._leases, token, None, 0)

    def against(self, files: Iterable[str], agent: str | None) -> list[Conflict]:
        """Return the conflicts of files that an agent has edited, in the order of the files.

        A file that others share has no conflict for an agent that has reserved it too.

        Args:
            files: their paths from the root of the project; they are no globs.
            agent: the agent that edited them; None: an agent without a reservation.
        """
        live = self._live(self._engine.now_ms())
        others = _index(other for other in live if other.agent != agent)
        own = _index(mine for mine in live if mine.agent == agent)
        return [
            Conflict(file, reservation)
            for file in files
            for reservation in others.matching(file)
            if reservation.mode == EXCLUSIVE or not own.matching(file)
        ]

    def list(self, *, agent: str | None = None, path: str | None = None) -> list[Reservation]:
        """Return the reservations that hold now, by path.

        Args:
            agent: only reservations of this agent.
            path: only reservations that share a path with this path or glob.
        """
        live = self._live(self._engine.now_ms())
        if path is not None:
            meeting = set(_index(live).meeting(parse_pattern(path)))
            live = [reservation for reservation in live if reservation in meeting]
        return [reservation for reservation in live if agent in (None, reservation.agent)]

    def ended_with_sessions(self, agent: str) -> Sequence[Reservation]:
        """Return an agent's reservations that ended before their time, with their session.

        Each is there until its time is over, or the agent reserves its path again.
        """
        rows = self._engine.rows(SQL["live_reservations"], (self._engine.now_ms(),))
        own = (
            reservation
            for reservation in (Reservation(*row) for row in rows)
            if reservation.agent == agent
        )
        is_over = ended_sessions()
        return [reservation for reservation in own if is_over(reservation.session)]

    def follow_clock_back(self) -> None:
        """Have what was reserved by a clock that was ahead be reserved now; safe to repeat."""
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.rows(SQL["bring_reservations_nearer"], (now_ms,))
            self._leases.follow_clock_back(now_ms)  # of the sessions that they are tied to

    def end(self, reservation: Reservation) -> None:
        """End a reservation of any agent: its token is void. Safe to repeat."""
        with self._engine.write():
            self._engine.rows(SQL["drop_reservation"], (reservation.path, reservation.agent))
            bind_to_session(self._leases, reservation.token, None, 0)

    @property
    def _leases(self) -> Leases:
        return Leases(self._engine)

    def _live(self, now_ms: int) -> Sequence[Reservation]:
        """Return the reservations whose time and session have not ended."""
        return [Reservation(*row) for row in LiveReservations(self._engine).rows(now_ms)]

    def _of_token(self, token: int) -> Reservation | None:
        row = self._engine.row(SQL["reservation_of_token"], (token,))
        return None if row is None else Reservation(*row)

    def _grant(
        self, grant: tuple[str, str, str, int, str | None], now_ms: int, session: str | None
    ) -> Reservation:
        row = self._engine.row(SQL["reservation"], grant[:2])
        existing = None if row is None else Reservation(*row)
        is_over = existing is not None and ended_sessions()(existing.session)
        if is_over or not self._engine.rows(SQL["extend_reservation"], grant):
            if existing is not None:  # it has ended, or is of the other mode
                self.end(existing)
            existing = None
            self._engine.rows(SQL["grant_reservation"], (*grant, now_ms))
        granted = Reservation(*self._engine.rows(SQL["reservation"], grant[:2])[0])
        if existing is None or existing.session is not None:
            bound = session if existing is None or existing.session == session else None
            bind_to_session(self._leases, granted.token, bound, (granted.until_ms - now_ms) / 1000)
            granted = replace(granted, session=bound)
        return granted

    def _lost(self, token: int, agent: str, now_ms: int) -> LeaseLost:
        reservation = self._of_token(token)
        if reservation is None:
            state = "it was released, has expired, or was never granted"
        elif ended_sessions()(reservation.session):
            state = f"the one for {reservation.path} has ended with the session that made it"
        elif reservation.agent != agent:
            state = f"it is {reservation.agent}'s, for {reservation.path}"
        else:
            state = f"the one for {reservation.path} has expired"
        return LeaseLost(
            f"{agent} has no reservation with token {token}: {state};"
            " see 'bus reservations', and reserve again what you need"
        )


def _patterns(paths: Iterable[str]) -> list[PathPattern]:
    """Return the patterns of paths and globs, each once."""
    patterns = list({pattern.text: pattern for pattern in map(parse_pattern, paths)}.values())
    if not 1 <= len(patterns) <= MAX_PATHS:
        raise InvalidInput(f"1 to {MAX_PATHS} paths can be reserved at once, not {len(patterns)}")
    return patterns


def _conflicts(
    patterns: Sequence[PathPattern], agent: str, mode: str, live: Sequence[Reservation]
) -> list[Conflict]:
    """Return the conflicts of patterns, up to `MAX_CONFLICTS`."""
    others = _index(
        other for other in live if other.agent != agent and EXCLUSIVE in (mode, other.mode)
    )
    conflicts: list[Conflict] = []
    for pattern in patterns:
        met = islice(others.meeting(pattern), MAX_CONFLICTS - len(conflicts))
        conflicts += [
            Conflict(pattern.text, reservation)
            for reservation in sorted(met, key=lambda reservation: reservation.token)
        ]
    return conflicts


def _key(reservation: Reservation) -> tuple[str, str, str, int]:
    """Return the identity of a reservation for conflicts; a new grant has a new token."""
    return reservation.path, reservation.agent, reservation.mode, reservation.token


def _index(reservations: Iterable[Reservation]) -> PathIndex[Reservation]:
    index: PathIndex[Reservation] = PathIndex()
    for reservation in reservations:
        index.add(_pattern_of(reservation.path), reservation)
    return index


def _pattern_of(path: str) -> PathPattern:
    """Return the pattern of a stored path; a path that is not a valid pattern matches itself."""
    try:
        return parse_pattern(path)
    except InvalidInput:
        return literal_pattern(path)  # some program wrote it with plain SQL
