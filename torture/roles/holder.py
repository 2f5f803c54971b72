"""A holder: takes leases that others want too, and writes under them, sometimes too late."""

from __future__ import annotations

from ...schema.errors import LeaseLost
from ..contents import TURN
from ..plan import READER
from .protocol import LEASE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.leases import Lease
    from .agent import Me

#: The leases, few enough that they are fought over.
NAMES = ("main branch", "release", "schema")

#: How long it thinks between two steps at most, in seconds: now and then a lease runs out.
THINK_S = 0.15

#: The next step under a lease, of 100. `leave` abandons the lease until it expires.
STEPS = {"write": 50, "renew": 20, "release": 20, "late": 5, "leave": 5}


def play(me: Me) -> None:
    """Take leases until it is over."""
    while not me.lifeline.ending:
        name = me.chance.choice(NAMES)
        with me.history.attempt("acquire", lease=name, lease_s=LEASE_S) as attempt:
            lease = me.bus.leases.acquire(name, me.name, lease_s=LEASE_S)
            attempt.told(token=None if lease is None else lease.token)
        if lease is not None:
            Holding(me, lease).use()
        me.pause(THINK_S)


class Holding:
    """A lease from its grant to its end."""

    def __init__(self, me: Me, lease: Lease) -> None:
        self._me = me
        self._lease = lease

    def use(self) -> None:
        """Take steps until one of them is the last."""
        step = ""
        while step not in ("release", "leave"):
            self._me.pause(THINK_S)
            step = self._me.choose(STEPS)
            if step == "leave":
                return
            if step == "late":
                self._me.lifeline.wait(LEASE_S)
            elif not self._take(step):
                return

    def _take(self, step: str) -> bool:
        """Take a step, and return whether the lease was still held."""
        what = {"lease": self._lease.name, "token": self._lease.token, "lease_s": LEASE_S}
        with self._me.history.attempt(step, **what) as attempt:
            try:
                getattr(self, f"_{step}")()
            except LeaseLost:
                attempt.told(lost=True)
                return False
            attempt.told()
        return True

    def _write(self) -> None:
        payload = {"lease": self._lease.name, "token": self._lease.token}
        with self._me.bus.transaction():
            self._me.bus.leases.check(self._lease)
            self._me.bus.publish(
                TURN, payload, from_agent=self._me.name, to_agent=self._me.any_of(READER)
            )

    def _renew(self) -> None:
        self._lease = self._me.bus.leases.renew(self._lease, lease_s=LEASE_S)

    def _release(self) -> None:
        self._me.bus.leases.release(self._lease)
