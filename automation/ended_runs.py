"""Contexts of runs that have ended, which go when they are old; those of live runs stay."""

from __future__ import annotations

from ..subscribers.jobs.claims import Claims
from ..subscribers.jobs.jobs import Jobs
from .jobs.plugin_queues import queues_of_plugins
from .routes.contexts import Contexts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus


class EndedRuns:
    """The contexts of runs of which no job waits or runs."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._contexts = Contexts.of(bus)

    def prune(self, before: str, limit: int) -> int:
        """Delete contexts of before a time, at most so many; return how many went."""
        if not self._contexts.has_older(before):
            return 0
        with self._bus.transaction():  # no run goes on meanwhile
            live = self._contexts.runs_of(self._live())
            return self._contexts.delete(before, limit, live)

    def _live(self) -> list[int]:
        """Return the seqs of all jobs of plugins that wait or run."""
        jobs, claims = Jobs.of(self._bus), Claims.of(self._bus)
        seqs = []
        for info in queues_of_plugins(self._bus):
            seqs += jobs.queued_seqs(info)
            seqs += [seq for _, seq in claims.active(info)]
        return seqs
