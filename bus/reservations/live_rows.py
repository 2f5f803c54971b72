"""The reservations that hold now, as they are stored, and the sessions with which they end.

A reservation that was made in a session has a lease that the session's process holds:
`reservation 17`, held by `process 4711 since ...`. When the kernel shows that process dead, the
reservation of token 17 has ended. A reservation without a lease ends at its time, such as that of a
person in a shell, who has neither a session nor a heart.

A commit waits for this module, and most often for no other of this room: where nothing is reserved,
nothing is in conflict.
"""

from __future__ import annotations

from contextlib import suppress

from ...schema.errors import LeaseLost
from ...schema.process_table import runs
from ...schema.queries import Table
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..leases import Leases

#: The beginning of the lease's name; the reservation's token follows. The statements have it, too.
_LEASE = "reservation "


def bind_to_session(leases: Leases, token: int, session: str | None, lease_s: float) -> None:
    """Bind a reservation to the process of a session, and unbind it from any other.

    Args:
        leases: of the bus.
        token: of the reservation.
        session: the process, as `str` of a `Process`; None: it ends at its time alone.
        lease_s: how long the reservation lasts from now, in seconds.
    """
    name = f"{_LEASE}{token}"
    lease = leases.get(name)
    if lease is not None:
        with suppress(LeaseLost):  # it has ended
            if lease.holder == session:
                leases.renew(lease, lease_s=lease_s)
                return
            leases.release(lease)
    if session is not None:
        leases.acquire(name, session, lease_s=lease_s)


def forget_ended(leases: Leases) -> None:
    """Delete the leases of reservations that have ended at their time."""
    leases.forget_ended(_LEASE, _LEASE[:-1] + "!")


def ended_sessions() -> Callable[[str | None], bool]:
    """Return a function that says whether a session is over; it asks the kernel once a session."""
    verdicts: dict[str | None, bool] = {None: False}

    def is_over(session: str | None) -> bool:
        if session not in verdicts:
            verdicts[session] = runs(str(session)) is False
        return verdicts[session]

    return is_over


class LiveReservations(Table):
    """The reservations whose time and session have not ended, as rows."""

    def rows(self, now_ms: int) -> list[tuple[Any, ...]]:
        """Return the rows that hold at a time; each has the fields of a `Reservation`, in order."""
        is_over = ended_sessions()
        rows = self._engine.rows(SQL["live_reservations"], (now_ms,))
        return [row for row in rows if not is_over(row[-1])]
