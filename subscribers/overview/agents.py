"""The agents of a bus with their inboxes, and the holders of reservations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ...bus.heartbeats import DEAD_AFTER_S, Heartbeats, Liveness
from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.draft import Draft
from ...schema.message.names import MAX_REASON_CHARS, check_line, check_recipient
from ...schema.message.times import format_ts
from ...schema.process_table import foreign_process, runs
from ...schema.queries import engine_of
from ..inboxes.failed_deliveries import Cursors, Deliveries
from ..inboxes.session import inbox_of
from ..inboxes.session_names import SessionNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...bus.presence.session_name import SessionName
    from ...bus.reservations.reservations import Conflict, Reservation, ReserveResult
    from ...schema.process_table import Process

#: Unread messages are counted up to this.
MAX_COUNTED = 1000


def agent_records(bus: LocalBus, *, online_s: float | None = None) -> list[dict[str, Any]]:
    """Return the JSON objects of the agents that a bus knows, by name.

    Each has the fields of the last heartbeat, if there was one, the cursor, and how many messages
    are unread, up to `MAX_COUNTED`; a session also has its base name, if that is another name.

    Args:
        bus: an open bus.
        online_s: only agents that have not stopped, and whose last beat is at most so old, in
            seconds; None: all.
    """
    heartbeats = bus.heartbeats.list()
    beats = {beat.agent: beat.record() for beat in heartbeats}
    names = bus.agents.names()
    if online_s is not None:
        online = {
            beat.agent
            for beat in heartbeats
            if beat.age_s <= online_s and beat.liveness != Liveness.STOPPED
        }
        names = [name for name in names if name in online]
    cursors = Cursors.of(bus).positions()
    bases = SessionNames.of(bus).bases()
    return [
        {"agent": name}
        | beats.get(name, {})
        | {"cursor": cursors.get(name, 0), "unread": unread_of(bus, name)}
        | ({"session_of": bases[name]} if name in bases else {})
        for name in names
    ]


def unread_of(bus: LocalBus, agent: str, limit: int = MAX_COUNTED) -> int | None:
    """Return the number of messages that an agent's inbox would show, up to a limit.

    None for a name that another program wrote, and that nothing can be sent to.
    """
    try:
        return inbox_of(bus, agent).unread(limit)
    except InvalidInput:
        return None


# Forgetting an agent that is gone for good.


def forget_agent(bus: LocalBus, agent: str) -> None:
    """Delete an agent's cursor, deliveries and heartbeat; the messages stay. Safe to repeat.

    Messages can be archived without waiting for it any more. When it comes back it is a new agent:
    it begins with the oldest message that it may read. An agent that has sent messages stays known
    by them.

    Args:
        bus: an open bus.
        agent: its name.

    Raises:
        NotFound: the bus has never seen it.
        Refused: its heart beats, or its delivery loop runs; nothing was changed.
    """
    with bus.transaction():
        require_absent(bus, agent)
        Cursors.of(bus).forget(agent)
        Deliveries.of(bus).forget(agent)
        bus.heartbeats.forget(agent)


def require_absent(bus: LocalBus, agent: str) -> None:
    """Refuse an agent that is there, or that never was.

    Raises:
        NotFound: the bus has never seen it.
        Refused: its heart beats, or its delivery loop runs.
    """
    stranger = bus.agents.stranger(agent, repeat=True)
    if stranger is not None:
        raise NotFound(str(stranger))
    beat = bus.heartbeats.get(agent)
    if beat is not None and beat.liveness == Liveness.ALIVE:
        raise Refused(f"agent {agent!r} is alive: its heart beat {beat.age_s:.0f} s ago")
    if agent in Deliveries.of(bus).agents_in_loops():
        raise Refused(f"agent {agent!r} is alive: its delivery loop runs")


# Processes that act under the name of a session, and do not belong to it.


def outsider(bus: LocalBus, session: SessionName) -> Process | None:
    """Return a process that beats for a session but does not descend from its program, or None.

    Such a process does without `bus hook` and `bus mcp`, as `bus listen` does, or has turned
    sessions off.
    """
    beat = Heartbeats(engine_of(bus)).get(session.name)
    if beat is None or beat.pid is None or beat.liveness is not Liveness.ALIVE:
        return None
    return foreign_process(beat.pid, session.process)


# The holders of reservations: whether they live, since when they are silent, and taking over.
#
# Silence alone ends no reservation. It lets another agent take the files over, which ends the
# reservation; its holder gets a message, and the reason of the new reservation names the holder.

#: The type of the message to an agent whose reservations were taken over.
TAKEN_OVER = "reservation.taken_over"

#: After how long without an act an agent counts as silent, in seconds.
SILENT_S = DEAD_AFTER_S


@dataclass(frozen=True, slots=True)
class ReservationHolder:
    """The state of the agent that has a reservation, as the bus knows it.

    Attributes:
        lives: whether its process runs or its heart beats; False: it has stopped, or the process
            is dead; None: unknown.
        heard_ms: when it acted last: a beat, a message, an acknowledgement, or the reservation; in
            epoch milliseconds.
        silent_s: how long ago it acted last, in seconds.
    """

    lives: bool | None
    heard_ms: int
    silent_s: float

    @property
    def may_be_followed(self) -> bool:
        """Whether another agent may take its files over: it is dead, or silent."""
        return self.lives is False or self.silent_s >= SILENT_S

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        return {"lives": self.lives, "silent_since": format_ts(self.heard_ms)}

    def __str__(self) -> str:
        words = {True: "it lives", False: "it is dead", None: "it may live"}
        return f"{words[self.lives]}, silent since {format_ts(self.heard_ms)}"


def holder_of(bus: LocalBus, reservation: Reservation) -> ReservationHolder:
    """Return the state of the agent that has a reservation."""
    beat = bus.heartbeats.get(reservation.agent)
    _, acknowledged_ms = Cursors.of(bus).seen().get(reservation.agent, (0, 0))
    acted_ms = max(
        reservation.reserved_at_ms, acknowledged_ms, bus.log.last_sent_ms(reservation.agent) or 0
    )
    heard_ms = acted_ms if beat is None else max(acted_ms, beat.ts_ms)
    silent_s = max(0, bus.now_ms() - heard_ms) / 1000
    if reservation.session is not None and (runs_now := runs(reservation.session)) is not None:
        return ReservationHolder(runs_now, heard_ms, silent_s)
    lives = None
    if beat is not None and beat.liveness in (Liveness.ALIVE, Liveness.WARN):
        lives = True
    elif beat is not None and beat.liveness is Liveness.STOPPED and beat.ts_ms >= acted_ms:
        lives = False
    return ReservationHolder(lives, heard_ms, silent_s)


def take_over(
    bus: LocalBus,
    paths: Sequence[str],
    agent: str,
    *,
    reason: str,
    by_hand: bool = False,
    shared: bool = False,
    lease_s: float | None = None,
    session: str | None = None,
) -> ReserveResult:
    """Reserve paths, and end the reservations of others that conflict with them.

    All or none, in one transaction. The tokens of these reservations are void, and each former
    holder gets a message of the type `reservation.taken_over`, which keeps on record what was
    taken, by whom and why.

    Args:
        bus: an open bus.
        paths, agent, shared, session: as for `Reservations.reserve`.
        lease_s: how long the reservation lasts, in seconds; None: an hour.
        reason: why, for the holders and the guard.
        by_hand: whether a person decides: then living holders that are not silent lose theirs, too.

    Returns:
        As `Reservations.reserve`: not granted, with the conflicts, where a holder lives, was heard
        of lately, and `by_hand` is False.

    Raises:
        InvalidInput: there is no reason, or an argument breaks a rule.
        BusBusy: other writers kept the bus for too long; nothing was changed.
    """
    # Hooks load this module, and reserve nothing.
    from ...bus.reservations.reservations import DEFAULT_RESERVATION_S, ReserveResult

    check_line(reason, "a reason", MAX_REASON_CHARS)
    if not reason.strip():
        raise InvalidInput("say why: a reservation is taken over with a reason")
    taken: list[Reservation] = []
    try:
        with bus.transaction():
            while True:
                reserved = bus.reservations.reserve(
                    paths,
                    agent,
                    shared=shared,
                    lease_s=DEFAULT_RESERVATION_S if lease_s is None else lease_s,
                    reason=_noted(reason, taken),
                    session=session,
                )
                if reserved.granted:
                    break
                taken += _end(bus, reserved.conflicts, by_hand=by_hand)
            bus.log.append(_messages(bus, taken, agent, reason))
    except _HolderAlive as refusal:
        return ReserveResult(False, [], refusal.conflicts)
    return reserved


class _HolderAlive(Exception):
    """Rolls back a take-over that conflicts with reservations of living holders."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


def _end(bus: LocalBus, conflicts: Sequence[Conflict], *, by_hand: bool) -> list[Reservation]:
    """End the reservations that conflict; each is returned once."""
    reservations = list({conflict.held.token: conflict.held for conflict in conflicts}.values())
    may_end = {
        reservation.token: by_hand or holder_of(bus, reservation).may_be_followed
        for reservation in reservations
    }
    unended = [conflict for conflict in conflicts if not may_end[conflict.held.token]]
    if unended:
        raise _HolderAlive(unended)
    for reservation in reservations:
        bus.reservations.end(reservation)
    return reservations


def _noted(reason: str, taken: Sequence[Reservation]) -> str:
    """Return the reason of the new reservation, which names the former holders."""
    names = ", ".join(dict.fromkeys(reservation.agent for reservation in taken))
    return (f"taken over from {names}: {reason}" if taken else reason)[:MAX_REASON_CHARS]


def _messages(bus: LocalBus, taken: Iterable[Reservation], agent: str, reason: str) -> list[Draft]:
    """Return the message to each former holder; none to a name that can't be a recipient."""
    by_holder: dict[str, list[Reservation]] = {}
    for reservation in taken:
        by_holder.setdefault(reservation.agent, []).append(reservation)
    drafts = []
    for name, reservations in by_holder.items():
        with suppress(InvalidInput):  # another program wrote the row
            check_recipient(name)
            ended = [
                {"path": reservation.path, "token": reservation.token}
                for reservation in reservations
            ]
            payload = {"ended": ended, "by": agent, "reason": reason}
            drafts.append(Draft(TAKEN_OVER, payload, from_agent=agent, to_agent=name))
    return drafts
