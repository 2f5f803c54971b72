"""Claims: each attempt at a job, by whom, until when, and how it ended. They are never deleted."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, shown
from ...schema.queries import Table
from .jobs import FAILED, TIMED_OUT
from .policy import kept_error, kept_text
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, Literal

    from ...schema.message.message import Message
    from ..options import ClaimStatus, EndStatus
    from ..queues.queues import QueueInfo

#: The statuses of a claim, beside `FAILED` and `TIMED_OUT`, which are a job's too.
ACTIVE: Final = "active"
COMPLETED: Final = "completed"
LOST: Final = "lost"

#: The statuses with which a worker may end its claim.
ENDS = (COMPLETED, FAILED, TIMED_OUT)

#: How many claims are counted at once.
_MAX_COUNTED = 100_000

#: How many lost claims one transaction settles.
_LOST_BATCH = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on a message until the lease runs out.

    Attributes:
        queue: the queue's name.
        message: what the work is about.
        token: the claim's identity, and its fencing token: a later claim has a larger token.
        attempt: which attempt this is, from 1.
        max_attempts: how many there may be.
        dedupe_key: what the job is about, or None.
        group, instance: the class of workers, and the process of it, that has the claim.
        claimed_at_ms: when it was claimed, in epoch milliseconds.
        lease_until_ms: when it is lost unless it was renewed.
    """

    queue: str
    message: Message
    token: int
    attempt: int
    max_attempts: int
    dedupe_key: str | None
    group: str
    instance: str
    claimed_at_ms: int
    lease_until_ms: int


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim as it is stored.

    Attributes:
        token: its identity.
        queue, seq: the job.
        attempt: which attempt it was.
        group, instance: the worker group, and the process of it, that had the claim.
        available_at_ms: since when the job could be claimed.
        claimed_at_ms: when it was claimed.
        lease_until_ms: until when it was leased, after the last renewal.
        status: `active`, `completed`, `failed`, `timed_out` or `lost`.
        ended_at_ms: when it ended; None while it is active.
        exit_code: of the command, or None; -1 when a signal ended it.
        error: why it failed, or None.
        stderr, result: what the command printed, or the handler returned, up to 65,536 characters.
        logs: what a command of the json contract reported, as JSON text.
    """

    token: int
    queue: str
    seq: int
    attempt: int
    group: str
    instance: str
    available_at_ms: int
    claimed_at_ms: int
    lease_until_ms: int
    status: ClaimStatus
    ended_at_ms: int | None
    exit_code: int | None
    error: str | None
    stderr: str | None
    result: str | None
    logs: str | None

    def state(self, now_ms: int) -> Literal["terminal", "live_active", "expired_active"]:
        """Return `terminal`, `live_active`, or `expired_active` (its job is about to be lost)."""
        if self.status != ACTIVE:
            return "terminal"
        return "live_active" if self.lease_until_ms > now_ms else "expired_active"


@with_checked_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an attempt.

    Attributes:
        status: `completed`, `failed` or `timed_out`.
        error: why it failed, in a line.
        result: the result: text is kept as it is, other values as JSON.
        exit_code: of the command.
        stderr: what the command printed to stderr.
        logs: what the command reported, a list of JSON objects.
        retry: whether another attempt is wanted; None leaves that to the queue's policy.
        retry_after_s: the pause before it, in seconds; None leaves it to the policy.
        is_reply: whether a failure is the reply by the worker's contract, which the rule
            `contract` follows.

    Raises:
        InvalidInput: a worker can't end a claim with this status.
    """

    status: EndStatus = COMPLETED
    error: str | None = None
    result: object = None
    exit_code: int | None = None
    stderr: str | None = None
    logs: list[Any] | None = None
    retry: bool | None = None
    retry_after_s: float | None = None
    is_reply: bool = False

    def __post_init__(self) -> None:
        """Refuse other statuses: a claim can't become active again, or be lost by its owner."""
        if self.status not in ENDS:
            raise InvalidInput(f"status must be one of {', '.join(ENDS)}, not {shown(self.status)}")

    def row(self) -> tuple[object, ...]:
        """Return the values of exit_code, error, stderr, result and logs as they are stored."""
        logs = None if not self.logs else orjson.dumps(self.logs).decode()
        texts = (kept_error(self.error), kept_text(self.stderr), kept_text(_text(self.result)))
        return (self.exit_code, *texts, logs)


class Claims(Table):
    """The table `claims`. What changes it belongs into a transaction that the caller has open."""

    def add(
        self, info: QueueInfo, seq: int, attempt: int, who: tuple[str, str], times: tuple[int, ...]
    ) -> int:
        """Store a claim by group and instance, and return its token."""
        return self._engine.insert(SQL["add_claim"], (info.id, seq, attempt, *who, *times))

    def renew(self, token: int, until_ms: int, now_ms: int) -> bool:
        """Move the end of a claim's lease; False: the lease has run out, or the claim is over."""
        return self._engine.count_changes(SQL["renew_claim"], (until_ms, token, now_ms)) > 0

    def end(self, token: int, outcome: Outcome, now_ms: int) -> bool:
        """End a claim; False: its lease has run out, or the claim is over."""
        values = (outcome.status, now_ms, *outcome.row(), token, now_ms)
        return self._engine.count_changes(SQL["end_claim"], values) > 0

    def lose(self, token: int, why: str, now_ms: int) -> bool:
        """End a claim as lost; False: the claim is over."""
        return bool(self._engine.rows(SQL["lose_claim"], (now_ms, why, token)))

    def note_late_end(self, token: int, outcome: Outcome) -> None:
        """Keep what a worker reports of a claim that it has lost."""
        exit_code, error, stderr, result, logs = outcome.row()
        note = f"reported too late: {outcome.status}" + (f": {error}" if error else "")
        self._engine.rows(SQL["note_late_end"], (exit_code, stderr, result, logs, note, token))

    def hand_back(self, token: int, why: str, now_ms: int) -> bool:
        """End a live claim as lost; False: its lease has run out, or the claim is over."""
        values = (now_ms, why, token, now_ms)
        return self._engine.count_changes(SQL["hand_back_claim"], values) > 0

    def status(self, token: int) -> ClaimStatus | None:
        """Return the stored status of a claim, or None if there is no claim."""
        status: ClaimStatus | None = self._engine.value(SQL["claim_status"], (token,))
        return status

    def expired(self, info: QueueInfo, now_ms: int) -> list[tuple[int, int]]:
        """Return token and seq of claims whose lease has run out, some at a time."""
        return self._engine.rows(SQL["expired_claims"], (info.id, now_ms, _LOST_BATCH))

    def active(self, info: QueueInfo) -> list[tuple[int, int]]:
        """Return token and seq of all active claims on jobs of a queue."""
        return self._engine.rows(SQL["active_claims"], (info.id,))

    def active_of(self, info: QueueInfo, seq: int) -> int | None:
        """Return the token of the active claim on a job, or None."""
        token: int | None = self._engine.value(SQL["active_claim"], (info.id, seq))
        return token

    def is_at_work(self, info: QueueInfo, now_ms: int) -> bool:
        """Whether a claim on a job of the queue is held."""
        return bool(self._engine.value(SQL["queue_is_at_work"], (info.id, now_ms)))

    def last_at_ms(self, info: QueueInfo) -> int | None:
        """Return when the queue's newest claim was made, in epoch milliseconds, or None.

        This walks over the entries of the queue's claims in an index.
        """
        at_ms: int | None = self._engine.value(SQL["last_claim_at"], (info.id,))
        return at_ms

    def follow_clock_back(self, info: QueueInfo, now_ms: int) -> None:
        """Move claims that a clock ahead has made to the present time; safe to repeat.

        A worker that lives renews its claim in time; otherwise it is lost after its lease.
        """
        self._engine.rows(SQL["bring_claims_nearer"], (info.id, now_ms))

    def newest_ms(self) -> int:
        """Return when the newest claim of all queues was made or ended; 0 before the first."""
        newest_ms: int | None = self._engine.value(SQL["newest_claim_time"])
        return newest_ms or 0

    def count_active(self, info: QueueInfo, limit: int) -> int:
        """Return how many claims are active, counted up to a limit."""
        count: int = self._engine.value(SQL["count_active"], (info.id, limit))
        return count

    def newest_token(self) -> int:
        """Return the token of the newest claim; 0 before the first."""
        token: int = self._engine.value(SQL["newest_token"])
        return token

    def count_since(self, token: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Count the claims after a token, or the first 100,000 of them.

        Returns:
            The last token that was counted; and of each queue its id, how many claims there were
            and how many of them tried a job again.
        """
        upto = min(self.newest_token(), token + _MAX_COUNTED)
        return upto, self._engine.rows(SQL["count_claims_between"], (token, upto))

    def get(self, token: int) -> ClaimRecord | None:
        """Return a claim, or None."""
        row = self._engine.row(SQL["claim"], (token,))
        return None if row is None else ClaimRecord(*row)

    def worker_of(self, seq: int) -> str | None:
        """Return the worker group that claimed a message last, or None."""
        group: str | None = self._engine.rows(SQL["worker_of_message"], (seq,))[0][0]
        return group

    def of_job(self, info: QueueInfo, seq: int) -> list[ClaimRecord]:
        """Return every claim there was on a job, the oldest first."""
        rows = self._engine.rows(SQL["claims_of_job"], (info.id, seq))
        return [ClaimRecord(*row) for row in rows]


def _text(result: object) -> str | None:
    if result is None or isinstance(result, str):
        return result
    try:
        return orjson.dumps(result, default=repr).decode()
    except Exception:
        # No Unicode, a key that is no text, a `repr` that fails: only the type's name is kept.
        return f"<{type(result).__name__}>"
