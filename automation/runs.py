"""Runs that are begun on request: the event of a run, and its first jobs, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema.errors import InvalidInput
from .jobs.submission import Submission

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus
    from .jobs.job_request import SubmittedBy
    from .routes.router import Router


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun.

    Attributes:
        root: the id of its event, below which all its jobs are.
        jobs: the ids of its first jobs.
    """

    root: str
    jobs: tuple[str, ...]


def begin_run(
    bus: Bus,
    router: Router,
    name: str,
    payload: object,
    *,
    submitted_by: SubmittedBy,
    one_job: bool = False,
) -> Run:
    """Begin a run of a pipeline.

    Args:
        bus: an open bus.
        router: knows the pipeline.
        name: of the pipeline.
        payload: of the event.
        submitted_by: who asks.
        one_job: refuse a run that would begin with several jobs.

    Raises:
        NotFound: there is no such pipeline.
        InvalidInput: it can't begin, or with several jobs; nothing was stored.
        LimitReached: a queue has no room; nothing was stored.
    """
    submission = Submission(bus)
    with bus.transaction():
        requests = router.begin(name, payload, submitted_by=submitted_by)
        if one_job and len(requests) > 1:
            raise InvalidInput(f"pipeline {name!r} begins with {len(requests)} jobs, not with one")
        jobs = tuple(submission.submit(request).job_id for request in requests)
    parent = requests[0].parent
    assert parent is not None
    return Run(parent.id, jobs)
