"""Runs on request: how one begins, in one transaction, and its result when it is over."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema.errors import InvalidInput
from .config.values import SWITCH
from .jobs.submission import Submission
from .records.facts import JobLog
from .routes.flow import Contexts, origin_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..bus.local_bus import LocalBus
    from .jobs.submission import SubmittedBy
    from .routes.conditions import CompiledPipeline
    from .routes.router import Router
    from .routes.tree import RunJob, RunTree


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A run that has begun.

    Attributes:
        root: the id of its event, below which all its jobs are.
        jobs: the ids of its first jobs: those of steps, then those of conditions.
    """

    root: str
    jobs: tuple[str, ...]


def begin_run(
    bus: LocalBus,
    router: Router,
    name: str,
    payload: object,
    *,
    submitted_by: SubmittedBy,
    one_job: bool = False,
) -> PipelineRun:
    """Begin a run of a pipeline.

    Args:
        bus: an open bus.
        router: knows the pipeline.
        name: of the pipeline.
        payload: of the event.
        submitted_by: the producer of the run.
        one_job: refuse a run that would begin with several jobs.

    Raises:
        NotFound: there is no such pipeline.
        InvalidInput: it can't begin, or with several jobs; nothing was stored.
        LimitReached: a queue has no room; nothing was stored.
    """
    submission = Submission(bus)
    with bus.transaction():
        requests = router.begin(name, payload, submitted_by=submitted_by)
        steps = [request.id for request in requests if request.answer is None]
        if one_job and len(steps) > 1:
            raise InvalidInput(f"pipeline {name!r} begins with {len(steps)} jobs, not with one")
        ids = [submission.submit(request).job_id for request in requests]
        jobs = tuple(sorted(ids, key=lambda id: id not in steps))
    parent = requests[0].parent
    assert parent is not None
    return PipelineRun(parent.id, jobs)


def result_of(
    bus: LocalBus, run: PipelineRun, pipeline: CompiledPipeline, tree: RunTree
) -> dict[str, Any] | None:
    """Return the result of a run that is over.

    It is the answer of the last step, by their order in the pipeline, that had a job. A pipeline
    that ends in several steps has a map: the answer of each step that no other one followed, by its
    id. Of a step with several jobs the newest counts. Jobs that routes and other pipelines added to
    the tree do not.

    Args:
        bus: an open bus.
        run: the run.
        pipeline: of the run.
        tree: all that came of the run.

    Returns:
        The answer, None where the plugin printed no JSON object; or the map.
    """
    jobs = [job for job in tree.jobs if _is_of(bus, job, run)]
    conditions = _conditions(tree)
    followed = {conditions.get(_before(job), _before(job)) for job in jobs}
    last = {_step(job): job for job in jobs if job.message.id not in followed}
    order = [key for key in pipeline.jobs if key in last]
    if len(pipeline.ends) > 1:
        return {key: _answer(bus, last[key]) for key in order}
    return _answer(bus, last[order[-1]]) if order else None


def _is_of(bus: LocalBus, job: RunJob, run: PipelineRun) -> bool:
    """Whether a job of the tree is a step of a run, and not of another one that it has begun."""
    context = Contexts.of(bus).get(str(origin_of(job.message).get("context_id")))
    return context is not None and context.root_job_id in run.jobs


def _conditions(tree: RunTree) -> dict[str, str]:
    """Return the conditions of a tree by their ids, each with the job before it."""
    conditions: dict[str, str] = {}
    for job in tree.jobs:  # each stands after the one that it follows
        if job.plugin == SWITCH:
            conditions[job.message.id] = conditions.get(_before(job), _before(job))
    return conditions


def _before(job: RunJob) -> str:
    return str(origin_of(job.message).get("parent_job_id"))


def _step(job: RunJob) -> str:
    return str(origin_of(job.message).get("step"))


def _answer(bus: LocalBus, job: RunJob) -> dict[str, Any] | None:
    log = JobLog.of(bus).of_job(job.message.id)
    return log[-1].answer if log else None
