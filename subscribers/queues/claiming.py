"""Claiming: the next jobs of a queue are handed out, each under a claim of its own."""

from __future__ import annotations

from ...schema.message.message import delivered
from ..jobs.claims import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..jobs.claims import Claims
    from ..jobs.jobs import Jobs, Ready
    from .filling import Filler
    from .queues import QueueInfo


class Claimer:
    """Hands out the jobs of one queue. All calls belong into the caller's transaction."""

    def __init__(self, jobs: Jobs, claims: Claims, filler: Filler) -> None:
        self._jobs = jobs
        self._claims = claims
        self._filler = filler

    def take(
        self, info: QueueInfo, who: tuple[str, str], limit: int, now_ms: int, lease_ms: int
    ) -> list[Claim]:
        """Claim up to `limit` jobs that may begin, for a group and instance, in order."""
        if info.paused_at_ms is not None:
            return []
        most = info.policy.max_running
        if most is not None:
            limit = min(limit, most - self._claims.count_active(info, most))
        taken = self._jobs.take(info, who[0], now_ms, limit) if limit > 0 else []
        return [self._claim(info, who, row, now_ms, now_ms + lease_ms) for row in taken]

    def _claim(
        self, info: QueueInfo, who: tuple[str, str], ready: Ready, now_ms: int, until_ms: int
    ) -> Claim:
        seq, attempt, max_attempts, available_at_ms, key = ready
        token = self._claims.add(info, seq, attempt, who, (available_at_ms, now_ms, until_ms))
        message = self._filler.message(seq)
        delivered(message, attempt, token)
        return Claim(info.name, message, token, attempt, max_attempts, key, *who, now_ms, until_ms)
