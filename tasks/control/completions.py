"""Completions: the commits of finished jobs, waiting for an integrator."""

from __future__ import annotations

from ...subscribers.jobs.claims import Outcome
from ..records.entry import Entry
from ..steps.kept_heads import KeptHeads
from ..steps.messages import COMPLETIONS
from .client_values import text_of
from .entries import Entries, failed
from .requests import required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...bus.bus import Bus

#: The fields that a completion may have besides those that it must.
_OPTIONAL = ("commitSha", "branch", "prTitle", "prBody")


class Completions:
    """The queue of completions: the oldest first.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self.entries = Entries(bus, COMPLETIONS)
        self._heads = KeptHeads(bus)

    def enqueue(
        self,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> str:
        """Publish a completion in the conversation of its job, and return its id.

        Raises:
            InvalidInput: job, session or message is missing.
            GitFailed: as for `keep_head`.
        """
        job, session, message = required(body, "jobId", "sessionId", "message")
        texts = {name: text_of(body.get(name)) for name in _OPTIONAL}
        more = {name: text for name, text in texts.items() if text}
        self.keep_head(body)
        payload = {"jobId": job, "sessionId": session, "message": message, **more}
        entry, _ = self.entries.add(payload, agent=agent, parent=job, trace=trace)
        return entry.id

    def keep_head(self, body: Mapping[str, Any]) -> None:
        """Give the commit that a completion names a ref, where a trusted repository has it.

        `enqueue` does so too, but within a transaction, in which git may not run. Safe to repeat.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        self._heads.keep_asked(text_of(body.get("commitSha")))

    def claim(self, agent: str) -> tuple[dict[str, Any], int] | None:
        """Claim the oldest completion: its row, and the token of the claim; None without one."""
        entry = self.entries.claim(agent)
        if entry is None or entry.claim is None:
            return None
        return row(entry), entry.claim.token

    def processed(self, id: str, *, agent: str | None = None) -> Entry:
        """End a claimed completion: its commit is in the target.

        Raises:
            NotClaimed: it is not claimed.
        """
        ended = self.entries.end(id, Outcome(), agent=agent)
        self._heads.drop_asked(ended.text("commitSha"))
        return ended

    def fail(self, id: str, error: object = None, *, agent: str | None = None) -> Entry:
        """End a claimed completion for good: its commit is not in the target.

        Raises:
            NotClaimed: it is not claimed.
        """
        return self.entries.end(id, failed(text_of(error)), agent=agent)


def row(entry: Entry) -> dict[str, Any]:
    """Return a completion by the names of PushPals' columns."""
    times, failure, branch = entry.times(), entry.failure(), entry.text("branch")
    return {
        "id": entry.id,
        "jobId": entry.text("jobId") or entry.text("task"),
        "sessionId": entry.session,
        "commitSha": entry.text("commitSha") or entry.text("head"),
        "branch": branch,
        "message": entry.text("message") or (None if branch is None else f"Merge {branch}"),
        "prTitle": entry.text("prTitle"),
        "prBody": entry.text("prBody"),
        "status": entry.status,
        "pusherId": entry.holder,
        "error": None if failure is None else entry.job.error or failure["message"],
        "completedAt": times["completedAt"],
        "failedAt": times["failedAt"],
        "createdAt": times["createdAt"],
        "updatedAt": times["updatedAt"],
    }
