"""Reservations and conflicts as the commands print them. Loads only what a hook needs."""

from __future__ import annotations

from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.reservations.reservations import Conflict


def describe(conflict: Conflict, holder: str = "") -> str:
    """Return a conflict in one line.

    Args:
        conflict: the conflict.
        holder: the state of the holder, with a separator before it; "" for none.
    """
    reservation = conflict.held
    within = "" if reservation.path == conflict.path else f" as {reservation.path}"
    why = f", {reservation.reason!r}" if reservation.reason else ""
    until = format_ts(reservation.until_ms)
    return (
        f"{conflict.path} is reserved by {reservation.agent}{within} until {until}"
        f"{holder} ({reservation.mode}{why})"
    )


def state_of_holder(bus: Bus, conflict: Conflict) -> str:
    """Return whether the holder of a conflict lives, and since when it is silent."""
    from ...subscribers.overview.agents import holder_of

    return str(holder_of(bus, conflict.held))


def conflict_record(bus: Bus, conflict: Conflict) -> dict[str, object]:
    """Return a conflict as `--json` prints it."""
    from ...subscribers.overview.agents import holder_of

    path = conflict.path.encode(errors="backslashreplace").decode()  # git has names of any bytes
    reservation = conflict.held
    return {
        "path": path,
        "held": reservation.record(),
        "holder": holder_of(bus, reservation).record(),
    }
