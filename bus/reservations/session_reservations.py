"""The reservations that were made in sessions: each has a lease that its session's process holds.

`reservation 17`, held by `process 4711 since ...`: when the kernel shows that process dead, the
reservation of token 17 has ended. One without such a lease ends at its time, as that of a person in
a shell does, who has neither a session nor a heart.
"""

from __future__ import annotations

from contextlib import suppress

from ...schema.errors import LeaseLost
from ...schema.process_table import runs
from ..leases import Leases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: How the name of such a lease begins; the reservation's token follows. The statements know it too.
_LEASE = "reservation "


def tie(leases: Leases, token: int, session: str | None, lease_s: float) -> None:
    """Bind a reservation to the process of a session, and to no other that had it.

    Args:
        leases: of the bus.
        token: of the reservation.
        session: the process, as `str` of a `Process`; None: it ends at its time alone.
        lease_s: how long the reservation lasts from now, in seconds.
    """
    name = f"{_LEASE}{token}"
    held = leases.get(name)
    if held is not None:
        with suppress(LeaseLost):  # it has ended
            if held.holder == session:
                leases.renew(held, lease_s=lease_s)
                return
            leases.release(held)
    if session is not None:
        leases.acquire(name, session, lease_s=lease_s)


def forget_ended(leases: Leases) -> None:
    """Delete the leases of reservations that have ended at their time."""
    leases.forget_ended(_LEASE, _LEASE[:-1] + "!")


def ended_sessions() -> Callable[[str | None], bool]:
    """Return a function that says whether a session is over, and asks the kernel once for each."""
    known: dict[str | None, bool] = {None: False}

    def is_over(session: str | None) -> bool:
        if session not in known:
            known[session] = runs(str(session)) is False
        return known[session]

    return is_over
