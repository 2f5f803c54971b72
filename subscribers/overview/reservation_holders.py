"""The holders of reservations: whether they live, since when they are silent, and taking over.

Silence alone ends no reservation. It lets another agent take the files over, which ends the
reservation that was there; its holder is told by a message, and the new one says so to the guard.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ...bus.presence.heartbeats import DEAD_AFTER_S, Liveness
from ...bus.reservations.reservations import DEFAULT_RESERVATION_S, ReserveResult
from ...schema.arguments import checked
from ...schema.errors import InvalidInput
from ...schema.message.draft import Draft
from ...schema.message.limits import MAX_REASON_CHARS
from ...schema.message.names import check_line, check_recipient
from ...schema.message.times import format_ts
from ...schema.process_table import runs
from ..inboxes.cursors import Cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...bus.bus import Bus
    from ...bus.reservations.reservations import Conflict, Reservation

#: The type of the message to an agent whose reservations were taken over.
TAKEN_OVER = "reservation.taken_over"

#: For how long an agent was not heard of that counts as silent, in seconds.
SILENT_S = DEAD_AFTER_S


@dataclass(frozen=True, slots=True)
class Holder:
    """The state of the agent that has a reservation, as the bus knows it.

    Attributes:
        lives: whether its process runs or its heart beats; False: it said that it stopped, or the
            process is dead; None: nothing tells.
        heard_ms: when it acted last: a beat, a message, an acknowledgement, or the reservation; in
            epoch milliseconds.
        silent_s: how long ago that was, in seconds.
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
        told = {True: "it lives", False: "it is dead", None: "it may live"}
        return f"{told[self.lives]}, silent since {format_ts(self.heard_ms)}"


def holder_of(bus: Bus, held: Reservation) -> Holder:
    """Return what is known of the agent that has a reservation."""
    beat = bus.heartbeats.get(held.agent)
    _, acknowledged_ms = Cursors.of(bus).seen().get(held.agent, (0, 0))
    acted_ms = max(held.reserved_at_ms, acknowledged_ms, bus.log.last_sent_ms(held.agent) or 0)
    heard_ms = acted_ms if beat is None else max(acted_ms, beat.ts_ms)
    silent_s = max(0, bus.now_ms() - heard_ms) / 1000
    if held.session is not None and (runs_now := runs(held.session)) is not None:
        return Holder(runs_now, heard_ms, silent_s)
    lives = None
    if beat is not None and beat.liveness in (Liveness.ALIVE, Liveness.WARN):
        lives = True
    elif beat is not None and beat.liveness is Liveness.STOPPED and beat.ts_ms >= acted_ms:
        lives = False
    return Holder(lives, heard_ms, silent_s)


@checked
def take_over(
    bus: Bus,
    paths: Sequence[str],
    agent: str,
    *,
    reason: str,
    by_hand: bool = False,
    shared: bool = False,
    lease_s: float = DEFAULT_RESERVATION_S,
    session: str | None = None,
) -> ReserveResult:
    """Reserve paths, and end the reservations of others that conflict with them.

    All or none, in one transaction. Their tokens are void, and each former holder gets a message of
    the type `reservation.taken_over`, which keeps on record what was taken, by whom and why.

    Args:
        bus: an open bus.
        paths, agent, shared, lease_s, session: as for `Reservations.reserve`.
        reason: why, for the holders and the guard.
        by_hand: whether a person decides: also from holders that live and are heard of.

    Returns:
        As `Reservations.reserve`: not granted, with their conflicts, where holders live that were
        heard of lately, and nobody decides by hand.

    Raises:
        InvalidInput: there is no reason, or an argument breaks a rule.
        BusBusy: other writers kept the bus for too long; nothing was changed.
    """
    check_line(reason, "a reason", MAX_REASON_CHARS)
    if not reason.strip():
        raise InvalidInput("say why: a reservation is taken over with a reason")
    taken: list[Reservation] = []
    try:
        with bus.transaction():
            while True:
                found = bus.reservations.reserve(
                    paths,
                    agent,
                    shared=shared,
                    lease_s=lease_s,
                    reason=_noted(reason, taken),
                    session=session,
                )
                if found.granted:
                    break
                taken += _end(bus, found.conflicts, by_hand=by_hand)
            bus.log.append(_messages(bus, taken, agent, reason))
    except _HeldByTheLiving as kept:
        return ReserveResult(False, [], kept.conflicts)
    return found


class _HeldByTheLiving(Exception):
    """Rolls a take-over back that conflicts with the living."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


def _end(bus: Bus, conflicts: Sequence[Conflict], *, by_hand: bool) -> list[Reservation]:
    """End the reservations that conflict; each is returned once."""
    held = list({each.held.token: each.held for each in conflicts}.values())
    follows = {each.token: by_hand or holder_of(bus, each).may_be_followed for each in held}
    kept = [each for each in conflicts if not follows[each.held.token]]
    if kept:
        raise _HeldByTheLiving(kept)
    for each in held:
        bus.reservations.end(each)
    return held


def _noted(reason: str, taken: Sequence[Reservation]) -> str:
    """Return the reason of the new reservation, which names who had the files."""
    names = ", ".join(dict.fromkeys(each.agent for each in taken))
    return (f"taken over from {names}: {reason}" if taken else reason)[:MAX_REASON_CHARS]


def _messages(bus: Bus, taken: Iterable[Reservation], agent: str, reason: str) -> list[Draft]:
    """Return the message to each former holder; none to a name that nothing can be sent to."""
    by_holder: dict[str, list[Reservation]] = {}
    for each in taken:
        by_holder.setdefault(each.agent, []).append(each)
    drafts = []
    for name, lost in by_holder.items():
        with suppress(InvalidInput):  # another program wrote the row
            check_recipient(name)
            ended = [{"path": each.path, "token": each.token} for each in lost]
            told = {"ended": ended, "by": agent, "reason": reason}
            drafts.append(Draft(TAKEN_OVER, told, from_agent=agent, to_agent=name))
    return drafts
