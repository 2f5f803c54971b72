"""Holding a target: the lease of its one integrator, and the claims under it, kept by a thread."""

from __future__ import annotations

import threading
from contextlib import suppress

from ...schema.errors import BusBusy, LeaseLost, Refused
from ...schema.message.times import format_ts
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.queues.claim_by_token import claim_of
from ..records.task import lease_of_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Thread

    from ...bus.bus import Bus
    from ...bus.leases import Lease
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.queues.queue import Queue

#: How long the lease of an integrator, and its claims, last unless they are renewed, in seconds.
LEASE_S = 30.0


class Holding:
    """The lease of a target, and the claims of what is being integrated.

    Whoever makes one holds the lock of the target in the repository. So an earlier holder of the
    lease on this machine is gone, and its lease and claims are taken over at once.

    Args:
        bus: the bus.
        queue: the completions.
        repository, target: whose integrator it is.
        group: the worker group of the target's integrators.
        agent: the integrator.
        lease_s: how long lease and claims last.
    """

    def __init__(
        self,
        bus: Bus,
        queue: Queue,
        repository: str,
        target: str,
        *,
        group: str,
        agent: str,
        lease_s: float = LEASE_S,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._name = lease_of_target(repository, target)
        self._group = group
        self._agent = agent
        self.lease_s = lease_s
        self._claims: dict[int, Claim] = {}
        self._lease: Lease | None = None
        self._done = threading.Event()
        self._thread: Thread | None = None

    def acquire(self) -> None:
        """Take the lease, and hand back the claims of an integrator that is gone.

        Raises:
            Refused: it is held on another machine.
        """
        held = self._bus.leases.get(self._name)
        if held is not None:
            with suppress(LeaseLost):
                self._bus.leases.release(held)
        self._lease = self._bus.leases.acquire(self._name, self._agent, lease_s=self.lease_s)
        if self._lease is None:
            held = self._bus.leases.get(self._name)
            until = "" if held is None else f" by {held.holder} until {format_ts(held.until_ms)}"
            raise Refused(f"lease {self._name!r} is held{until}; wait, or end that integrator")
        self._sweep()

    def _sweep(self) -> None:
        """Hand back the jobs that a killed integrator had claimed: no attempt is counted."""
        for token, _ in Claims.of(self._bus).active(self._queue.info):
            queue, claim = claim_of(self._bus, token)
            if claim.group == self._group:
                with suppress(ClaimLost):  # it has run out: the next claim looks after it
                    queue.release(claim, "its integrator was lost")

    def check(self) -> None:
        """Check that the target is still held; inside a transaction this fences its writes.

        Raises:
            LeaseLost: it is not.
        """
        assert self._lease is not None, self._name
        self._bus.leases.check(self._lease)

    def keep(self, claims: Sequence[Claim]) -> None:
        """Keep claims from now on."""
        self._claims.update((claim.token, claim) for claim in claims)

    def let_go(self, claim: Claim) -> None:
        """Keep a claim no longer; one that is not kept is no error."""
        self._claims.pop(claim.token, None)

    def __enter__(self) -> Holding:
        self.acquire()
        self._thread = start_thread(self._run, f"keeper of {self._name}")
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if self._lease is not None:
            with suppress(LeaseLost):
                self._bus.leases.release(self._lease)

    def _run(self) -> None:
        try:
            while not self._done.wait(self.lease_s / 3):
                self._renew()
        finally:
            engine_of(self._bus).close_thread()

    def _renew(self) -> None:
        """Renew what is still held; what is not shows where it is checked."""
        with suppress(LeaseLost, BusBusy):  # there is time for another try
            if self._lease is not None:
                self._bus.leases.renew(self._lease, lease_s=self.lease_s)
        for claim in list(self._claims.values()):
            with suppress(ClaimLost, BusBusy):
                self._queue.renew(claim, lease_s=self.lease_s)
