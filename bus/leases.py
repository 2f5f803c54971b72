"""Leases: named exclusive rights that expire, each grant with a fencing token."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from time import monotonic, sleep

from ..schema.arguments import with_checked_arguments
from ..schema.errors import BusBusy, InvalidInput, LeaseLost
from ..schema.message.names import check_agent, check_lease_name, did_you_mean
from ..schema.message.times import format_ts
from ..schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long a lease lasts unless the caller says otherwise, in seconds; renew it at half of that.
DEFAULT_LEASE_S = 60.0

#: The longest lease, in seconds: a day. Longer work renews.
MAX_LEASE_S = 86_400.0

#: The first and the longest pause of a waiter between two tries, in seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted lease.

    Attributes:
        name: its name.
        holder: the agent that has it.
        token: the fencing token; a later grant of any lease has a larger token.
        acquired_at_ms: when it was granted, in epoch milliseconds.
        until_ms: when it ends unless it is renewed; at that very millisecond it has ended.
    """

    name: str
    holder: str
    token: int
    acquired_at_ms: int
    until_ms: int

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "name": self.name,
            "holder": self.holder,
            "token": self.token,
            "acquired": format_ts(self.acquired_at_ms),
            "until": format_ts(self.until_ms),
        }


@with_checked_arguments
class Leases(Table):
    """The leases of a bus: the table `task_claims` (the name is older). A lease has one holder.

    An ended lease can't be extended, even when no other holder has taken it since: the holder
    can't know what happened meanwhile, so it has to acquire it again, with a new token.
    """

    def acquire(
        self, name: str, holder: str, *, lease_s: float = DEFAULT_LEASE_S, wait_s: float = 0.0
    ) -> Lease | None:
        """Acquire a lease if it is free. Checking and granting are one transaction.

        Args:
            name, holder: of the lease.
            lease_s: how long it lasts unless it is renewed, in seconds.
            wait_s: how long to block until it is free, in seconds; 0 doesn't block.

        Returns:
            The lease, or None when it is held, by `holder` itself too.

        Raises:
            InvalidInput: a name or the duration breaks a rule.
            BusBusy: other writers kept the bus locked for too long to find out.
        """
        check_lease_name(name)
        check_agent(holder, "holder")
        duration_ms = duration_ms_of(lease_s)
        deadline = monotonic() + wait_s
        pause_s = _FIRST_PAUSE_S
        while True:
            with suppress(BusBusy) if monotonic() < deadline else nullcontext():
                if (granted := self._grant(name, holder, duration_ms)) is not None:
                    return granted
            left_s = deadline - monotonic()
            if left_s <= 0:
                return None
            current = self.get(name)
            ends_in_s = (current.until_ms - self._engine.now_ms()) / 1000 if current else 0.0
            sleep(min(pause_s, left_s, max(ends_in_s, 0.001)))  # a release rings no bell
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def _grant(self, name: str, holder: str, duration_ms: int) -> Lease | None:
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.rows(SQL["end_expired_lease"], (name, now_ms))
            grant = (name, holder, now_ms, now_ms + duration_ms)
            granted = self._engine.rows(SQL["grant_lease"], grant)
            if not granted:
                # The holder's grant may be from a clock that was ahead, with a far end.
                self._engine.rows(SQL["bring_lease_nearer"], (now_ms, name))
            return self.get(name) if granted else None

    def renew(self, lease: Lease, *, lease_s: float = DEFAULT_LEASE_S) -> Lease:
        """Extend a lease to `lease_s` from now. Safe to repeat.

        Raises:
            LeaseLost: it has ended, was released, or is another holder's; nothing was changed.
        """
        duration_ms = duration_ms_of(lease_s)
        until_ms = self._change("renew_lease", lease, duration_ms) + duration_ms
        return Lease(lease.name, lease.holder, lease.token, lease.acquired_at_ms, until_ms)

    def release(self, lease: Lease) -> None:
        """Release a lease.

        Raises:
            LeaseLost: as for `renew`; also when it was released before.
        """
        self._change("release_lease", lease)

    def check(self, lease: Lease) -> None:
        """Check that a lease is still held; in a transaction, so that only its holder writes.

        Raises:
            LeaseLost: it is not.
        """
        current = self.get(lease.name)
        if (
            current is None
            or (current.holder, current.token) != (lease.holder, lease.token)
            or (current.until_ms <= self._engine.now_ms())
        ):
            raise self._lost(lease)

    def get(self, name: str) -> Lease | None:
        """Return the last grant of a lease that was not released, or None; it may have ended."""
        row = self._engine.row(SQL["lease"], (name,))
        return None if row is None else Lease(*row)

    def list(self) -> list[Lease]:
        """Return the leases that are held now, by name."""
        rows = self._engine.rows(SQL["live_leases"], (self._engine.now_ms(),))
        return [Lease(*row) for row in rows]

    def newest_ms(self) -> int:
        """Return when the newest of the leases was acquired, in epoch milliseconds; 0: no lease."""
        newest_ms: int | None = self._engine.value(SQL["newest_lease_time"])
        return newest_ms or 0

    def follow_clock_back(self, now_ms: int) -> None:
        """Move leases that were acquired in the future to now, each with its length.

        Safe to repeat. A live holder renews its lease in time, by the right clock.
        """
        self._engine.rows(SQL["bring_leases_nearer"], (now_ms,))

    def forget_ended(self, first: str, last: str) -> None:
        """Delete the leases that have ended and were not released, with names in a range."""
        self._engine.rows(SQL["forget_ended_leases"], (first, last, self._engine.now_ms()))

    def _change(self, statement: str, lease: Lease, duration_ms: int | None = None) -> int:
        """Run a statement on a held lease; return the time at which it ran."""
        with self._engine.write():
            now_ms = self._engine.now_ms()  # here: waiting for the lock must not shorten the lease
            ends = () if duration_ms is None else (now_ms + duration_ms,)
            key = (lease.name, lease.holder, lease.token, now_ms)
            if not self._engine.rows(SQL[statement], (*ends, *key)):
                raise self._lost(lease)
        return now_ms

    def _lost(self, lease: Lease) -> LeaseLost:
        current = self.get(lease.name)
        if current is None:
            names = (lease.name for lease in self.list())
            state = f"is free{did_you_mean(lease.name, names)}; acquire it again"
        elif current.until_ms <= self._engine.now_ms():
            state = "has expired; acquire it again"
        else:
            state = f"is held by {current.holder} with token {current.token}"
        return LeaseLost(
            f"{lease.holder} does not hold lease {lease.name!r} with token {lease.token}:"
            f" it {state}"
        )


def duration_ms_of(lease_s: float) -> int:
    """Return the length of a lease in milliseconds.

    Raises:
        InvalidInput: it is not positive, or more than a day.
    """
    if not 0 < lease_s <= MAX_LEASE_S:
        raise InvalidInput(
            f"a lease lasts more than 0 s and at most {MAX_LEASE_S:g} s (a day),"
            f" not {lease_s:g} s; renew it for longer work"
        )
    return max(1, round(lease_s * 1000))
