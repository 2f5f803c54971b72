"""The keeper of claims: a thread that extends their leases, and updates the heartbeat."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from ..schema.errors import AckbusError
from ..schema.message.names import MAX_TYPE_CHARS
from ..schema.processes import start_thread
from ..schema.queries import engine_of
from ..subscribers.jobs.errors import ClaimLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event, Thread

    from ..bus.heartbeat_thread import Heart
    from ..subscribers.jobs.claims import Claim
    from ..subscribers.queues.queue import Queue

#: Leases are renewed when this part of them is over: two renewals may fail before a lease is lost.
RENEW_AFTER = 1 / 3

#: How soon a job that takes its time shows in the heartbeat, in seconds.
TELL_AFTER_S = 1.0

_log = logging.getLogger("ackbus.worker")


@dataclass(slots=True)
class _KeptClaim:
    """A claim that is kept, and when it is to be renewed, on the monotonic clock."""

    claim: Claim
    due: float


class ClaimKeeper:
    """Renews the claims that a worker holds, as long as their work takes.

    Args:
        queue: the queue that they are from.
        lease_s: for how long each renewal is.
        heart: gets the current work as its task; None: no heart beats.
        on_lost: called from the keeper's thread with a claim that could not be kept.
    """

    def __init__(
        self, queue: Queue, lease_s: float, heart: Heart | None, on_lost: Callable[[Claim], None]
    ) -> None:
        self._queue = queue
        self._lease_s = lease_s
        self._heart = heart
        self._on_lost = on_lost
        # By token. Only single operations on it are done, which Python makes atomic.
        self._held: dict[int, _KeptClaim] = {}
        self._done: Event | None = None
        self._thread: Thread | None = None

    def hold(self, claim: Claim) -> None:
        """Keep a claim from now on."""
        self._held[claim.token] = _KeptClaim(claim, self._next_due())

    def let_go(self, claim: Claim) -> None:
        """Stop renewing a claim; a claim that is not held is no error."""
        self._held.pop(claim.token, None)

    def held(self) -> list[Claim]:
        """Return the claims that are kept, the first first."""
        return [kept_claim.claim for kept_claim in list(self._held.values())]

    def check(self) -> None:
        """Make sure that the thread is there: without it every lease would run out.

        Raises:
            AckbusError: it has died.
        """
        if self._thread is not None and not self._thread.is_alive():
            raise AckbusError("the thread that renews the leases has died")

    def __enter__(self) -> ClaimKeeper:
        import threading

        self._done = threading.Event()
        self._thread = start_thread(self._run, f"keeper of {self._queue.name}")
        return self

    def __exit__(self, *error: object) -> None:
        if self._done is not None and self._thread is not None:
            self._done.set()
            self._thread.join()

    def _run(self) -> None:
        assert self._done is not None
        reported: tuple[str, str | None] = ("idle", None)
        try:
            while not self._done.wait(min(TELL_AFTER_S, self._lease_s * RENEW_AFTER / 2)):
                for kept_claim in list(self._held.values()):
                    self._look_after(kept_claim)
                if self._heart is not None and (news := self._news()) != reported:
                    self._heart.update(news[0], task=news[1])
                    reported = news
        finally:
            engine_of(self._queue.bus).close_thread()

    def _look_after(self, kept_claim: _KeptClaim) -> None:
        """Renew a claim when that is due; and notice soon when it was taken away."""
        claim = kept_claim.claim
        try:
            if kept_claim.due > time.monotonic():
                if self._queue.status(claim) != "active":
                    self._lose(claim, "its job was cancelled, or its lease ran out")
                return
            self._queue.renew(claim, lease_s=self._lease_s)
            kept_claim.due = self._next_due()  # in place: it may have been let go meanwhile
        except ClaimLost as error:
            self._lose(claim, str(error))
        except AckbusError as error:  # the bus is busy; there is time for another try
            _log.warning("claim %s was not renewed: %s", claim.token, error)

    def _lose(self, claim: Claim, why: str) -> None:
        is_held = self._held.pop(claim.token, None) is not None
        if is_held and not self._is_ended(claim):
            _log.warning("message %s: the claim is lost: %s", claim.message.seq, why)
            self._on_lost(claim)

    def _next_due(self) -> float:
        return time.monotonic() + self._lease_s * RENEW_AFTER

    def _is_ended(self, claim: Claim) -> bool:
        """Whether the worker has ended a claim, in its own thread, and is about to let it go."""
        try:
            return self._queue.status(claim) not in ("active", "lost", None)
        except AckbusError:
            return False

    def _news(self) -> tuple[str, str | None]:
        claims = self.held()
        if not claims:
            return "idle", None
        more = f" and {len(claims) - 1} more" if len(claims) > 1 else ""
        type = claims[0].message.type
        if not type.isprintable() or len(type) > MAX_TYPE_CHARS:
            type = "a message"  # some program with its own SQL stored it
        return "working", f"{type} {claims[0].message.seq}{more}"
