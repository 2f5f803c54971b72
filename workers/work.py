"""The work on a claim by a Python function, and the keeper that renews the claim meanwhile."""

from __future__ import annotations

import logging
import os
import time
import traceback
from dataclasses import dataclass, field, replace

from ..bus import tracing
from ..schema.callbacks import call_plain, text_of
from ..schema.errors import AckbusError
from ..schema.message.draft import ABSENT, Draft
from ..schema.message.names import MAX_TYPE_CHARS
from ..schema.processes import start_thread
from ..schema.queries import engine_of
from ..subscribers.jobs.claims import Outcome
from ..subscribers.jobs.errors import ClaimLost, NeverRetry, RetryLater

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event, Thread
    from typing import Any, Protocol

    from ..bus.heartbeat_thread import Heart
    from ..bus.local_bus import LocalBus
    from ..schema.engine import Engine
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim
    from ..subscribers.queues.queue import Queue

    class Work(Protocol):
        """Something that a worker can do with claims; called from several threads at once."""

        def do(self, claim: Claim) -> AttemptResult:
            """Do the work of a claim's message, and return the result."""

        def stop(self, claim: Claim, grace_s: float) -> None:
            """End the work on a claim early, where that is possible."""


def seconds_to_change(queue: Queue, max_s: float) -> float:
    """Return the seconds until a job of a queue can be due, at most `max_s`."""
    at_ms = queue.next_change_ms()
    if at_ms is None:
        return max_s
    return min(max_s, max(0.001, (at_ms - queue.bus.now_ms()) / 1000))


# The keeper of claims: a thread that extends their leases, and updates the heartbeat.

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
        heart: its task shows the current work; None: no heartbeat.
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
        """Return the claims that are kept, the oldest first."""
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
            # A new entry in `_held` would bring back a claim that was let go meanwhile.
            kept_claim.due = self._next_due()
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


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt, with the messages to publish.

    Attributes:
        outcome: how it ended; None when it was broken off, and the job is to be handed back.
        payload: the payload of the answer; ABSENT for an answer without a payload.
        headers: the answer's headers that describe the attempt.
        drafts: further messages, published if this attempt ends the job.
        state_updates: updates of the worker group's state.
        error: what a handler raised.
    """

    outcome: Outcome | None
    payload: object = ABSENT
    headers: dict[str, object] = field(default_factory=dict)
    drafts: tuple[Draft, ...] = ()
    state_updates: dict[str, Any] | None = None
    error: BaseException | None = None


def do(work: Work, claim: Claim) -> AttemptResult:
    """Do the work on a claim, under a span where this process makes spans."""
    with tracing.handling(claim.message, claim.group):
        result = work.do(claim)
        if result.outcome is not None and result.outcome.status != "completed":
            tracing.mark_failed(result.outcome.error or result.outcome.status)
        return result


class FunctionWork:
    """Work that is done by a Python function of the message.

    What it returns is the payload of the answer; drafts, or a list of them, are published as they
    are. When it raises, the attempt has failed: `RetryLater` and `NeverRetry` say what then.
    """

    def __init__(self, handler: Callable[[Message], object], bus: LocalBus) -> None:
        self._handler = handler
        self._engine = engine_of(bus)
        self._pid = os.getpid()

    def do(self, claim: Claim) -> AttemptResult:
        """Call the function."""
        try:
            result = result_of(call_plain(self._handler, claim.message))
        except BaseException as error:  # any error, also SystemExit, ends this attempt
            if isinstance(error, KeyboardInterrupt) or os.getpid() != self._pid:
                raise  # the worker has to end, or this is a child that the handler forked
            result = result_of_error(error)
        return checked_result(self._engine, result)

    def stop(self, claim: Claim, grace_s: float) -> None:
        """Do nothing: a thread that runs Python can't be ended."""


def checked_result(engine: Engine, result: AttemptResult) -> AttemptResult:
    """Return a handler's result; a failure if the handler left a transaction open.

    The transaction is undone: its lock would keep every writer out, and later writes would be lost.
    """
    if not engine.writing:
        return result
    engine.close_thread()
    return result_of_error(AckbusError("the handler left a transaction open: it is undone"))


def result_of(value: object) -> AttemptResult:
    """Return the result of a handler that returned `value`."""
    if value is None:
        return AttemptResult(Outcome())
    several = value if isinstance(value, (list, tuple)) else [value]
    drafts = tuple(draft for draft in several if isinstance(draft, Draft))
    if drafts and len(drafts) == len(several):
        return AttemptResult(Outcome(), drafts=drafts)
    return AttemptResult(Outcome(result=value), payload=value)


def result_of_error(error: BaseException) -> AttemptResult:
    """Return the result of a handler that raised `error`."""
    retry = after_s = None
    if isinstance(error, RetryLater):
        retry, after_s = True, error.after_s
    elif isinstance(error, NeverRetry):
        retry = False
    text = text_of(error)
    outcome = Outcome(
        status="failed",
        error=text,
        stderr="".join(traceback.format_exception(error)),
        retry=retry,
        retry_after_s=after_s,
    )
    return AttemptResult(outcome, payload=text, error=error)


def not_storable(result: AttemptResult, error: Exception) -> AttemptResult:
    """Return the result of an attempt whose own result is refused by the bus."""
    assert result.outcome is not None  # else there is nothing to store
    text = f"the result can't be stored: {error}"
    return AttemptResult(replace(result.outcome, status="failed", error=text), payload=text)
