"""Views of jobs and claims, for people: they change nothing.

Lists and statistics read by statements of their own (`views.sql`): what people ask for must not
widen what changes the tables.
"""

from __future__ import annotations

import json

from ..schema.queries import Table
from .jobs.jobs import Job
from .jobs.statements import VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .queues.queues import QueueInfo

    #: Status, available_at_ms, claimed_at_ms, ended_at_ms of a claim.
    Attempt = tuple[str, int, int, int]


class Views(Table):
    """Statements that read the tables `jobs` and `claims`, for lists and statistics."""

    def jobs(self, info: QueueInfo, statement: str, *values: object) -> list[Job]:
        """Return the jobs that one of the statements for lists finds."""
        return [Job(*row) for row in self._engine.rows(VIEWS[statement], (info.id, *values))]

    def count(self, info: QueueInfo, states: Collection[str], walked: int) -> int:
        """Count the jobs in some states, in any if none is named, among so many of the newest."""
        values = (info.id, json.dumps(list(states)) if states else None, walked)
        count: int = self._engine.value(VIEWS["count_in_states"], values)
        return count

    def oldest_active_claim_ms(self, info: QueueInfo) -> int | None:
        """Return when the claim was made that is active for longest; None without one."""
        at_ms: int | None = self._engine.value(VIEWS["oldest_active_claim"], (info.id,))
        return at_ms

    def newest_attempts(self, info: QueueInfo, walked: int, limit: int) -> list[Attempt]:
        """Return up to `limit` of the newest attempts, from among so many of the newest claims."""
        return self._engine.rows(VIEWS["newest_attempts"], (info.id, walked, limit))

    def count_lost_claims(self, info: QueueInfo, walked: int, since_ms: int) -> int:
        """Count the claims that were lost since a time, among so many of the newest."""
        values = (info.id, walked, since_ms, self._engine.now_ms())
        count: int = self._engine.value(VIEWS["lost_claims"], values)
        return count
