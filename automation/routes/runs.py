"""Runs: begun on request, as trees of jobs with their states, and cancelled.

A job's successors are stored in the transaction that ends it. So a tree in which every job is over
is whole, and nothing is added to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...bus.doorbell import wait_for
from ...bus.log.log import find_message
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.patterns import UNPROVEN
from ...schema.message.times import format_ts
from ...schema.queries import engine_of
from ...subscribers.jobs.jobs import QUEUED, SUCCEEDED, Jobs
from ...subscribers.queues.queue import Queue
from ..config.values import SWITCH
from ..jobs import events
from ..jobs.plugin_run import FAULT
from ..jobs.submission import PREFIX, JobRequest, Submission
from ..records.facts import JobLog
from .flow import Contexts, origin_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job
    from ..jobs.submission import SubmittedBy
    from .conditions import CompiledPipeline
    from .router import Router

#: Longest pause of a waiter between two checks for commits, in seconds.
_RECHECK_S = 0.02


@dataclass(frozen=True, slots=True)
class RunJob:
    """A job of a run.

    Attributes:
        message: of the job.
        depth: how many jobs of the run stand before it.
        job: its state; None where it has left the tables, long after its end, or waits to be taken
            into its queue.
    """

    message: Message
    depth: int
    job: Job | None

    @property
    def plugin(self) -> str:
        """The plugin that runs it."""
        return plugin_of(self.message)

    @property
    def command(self) -> str:
        """The command of the plugin."""
        return self.message.type[len(PREFIX) + len(self.plugin) + 1 :]

    @property
    def state(self) -> str:
        """The state of the job."""
        return QUEUED if self.job is None else self.job.state

    @property
    def is_over(self) -> bool:
        """Whether no other attempt follows."""
        return self.job is not None and self.job.ended_at_ms is not None

    def record(self) -> dict[str, object]:
        """Return it as JSON."""
        origin, job = origin_of(self.message), self.job
        return {
            "job_id": self.message.id,
            "parent_job_id": origin.get("parent_job_id"),
            "depth": self.depth,
            "plugin": self.plugin,
            "command": self.command,
            "pipeline": origin.get("pipeline"),
            "step": origin.get("step"),
            "status": self.state,
            "attempt": 1 if job is None else job.attempt,
            "error": None if job is None else job.error,
            "created_at": format_ts(self.message.ts_ms),
            "started_at": _ts(None if job is None else job.started_at_ms),
            "completed_at": _ts(None if job is None else job.ended_at_ms),
        }


@dataclass(frozen=True, slots=True)
class RunTree:
    """A message and all jobs that have come of it, each after the one that it follows.

    Attributes:
        root: the message: of the first job, or the event that began the run.
        jobs: the jobs.
    """

    root: Message
    jobs: tuple[RunJob, ...]

    @classmethod
    def of(cls, bus: LocalBus, key: str) -> RunTree:
        """Return the tree below a message.

        Args:
            bus: an open bus.
            key: the id or seq of a job's message, or of an event.

        Raises:
            NotFound: there is no such message.
        """
        root = find_message(bus, key)
        if root is None:
            raise NotFound(f"no job or event {key!a} in the log; see 'bus job list'")
        messages = _below(bus, root)
        while True:
            tree = cls(root, _jobs_of(bus, messages))
            # The successors of a job that is over are there before this second look.
            again = _below(bus, root)
            if not tree.is_over or len(again) == len(messages):
                return tree
            messages = again

    @property
    def is_over(self) -> bool:
        """Whether every job is over, so that none follows."""
        return all(job.is_over for job in self.jobs)

    @property
    def state(self) -> str:
        """The state of the run: `running`, `succeeded`, or how the first bad job ended."""
        if not self.is_over:
            return "running"
        return next((job.state for job in self.jobs if job.state != SUCCEEDED), SUCCEEDED)

    def record(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "root": self.root.id,
            "status": self.state,
            "is_over": self.is_over,
            "jobs": [job.record() for job in self.jobs],
        }


def wait(
    bus: LocalBus, key: str, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True
) -> RunTree:
    """Wait until every job of a tree is over, or the timeout has passed.

    Args:
        bus: an open bus.
        key: as for `RunTree.of`.
        timeout_s: how long to wait at most, in seconds.
        is_wanted: returns whether the caller still waits; called often.

    Returns:
        The tree as it is then; `is_over` tells which.
    """
    engine = engine_of(bus)
    version, tree = engine.version(), RunTree.of(bus, key)

    def look() -> RunTree:
        nonlocal version, tree
        before, version = version, engine.version()
        if version != before:  # cheaper than the tree, which only a commit changes
            tree = RunTree.of(bus, key)
        return tree

    return wait_for(
        bus,
        look,
        lambda tree: tree.is_over or not is_wanted(),
        timeout_s=timeout_s,
        recheck_s=_RECHECK_S,
    )


def cancel(bus: LocalBus, key: str, why: str = "its run was cancelled") -> list[RunJob]:
    """Cancel all jobs of a tree that are not over; return them.

    One transaction: no job can end, and lead to others, in between. The programs that run are
    ended by the service.
    """
    with bus.transaction():
        live = [job for job in RunTree.of(bus, key).jobs if not job.is_over]
        for job in live:
            queue = Queue.open(bus, PREFIX + job.plugin)
            queue.jobs.cancel(job.message.seq, why)
    return live


def rerun_request(bus: LocalBus, key: str) -> JobRequest:
    """Return a request to run a job of a tree again, as a new job beside it.

    It has the payload, the event and the context of the old one, and no dedupe key, which would
    make it a duplicate.

    Raises:
        NotFound: there is no such job.
        InvalidInput: its input could not be built as its pipeline says.
    """
    job = find_message(bus, key)
    if job is None or not is_job(job) or not _was_submitted(bus, job):
        raise NotFound(f"no job {key!a} in the log; see 'bus job list'")
    if plugin_of(job) == SWITCH:
        raise InvalidInput("it is a condition, which is asked again when the step before it is run")
    origin, event = origin_of(job), job.headers.get("event")
    if fault := origin.get(FAULT):
        raise InvalidInput(f"it can't begin: {fault}; run the step before it once more")
    before = None if job.in_reply_to is None else bus.get(job.in_reply_to)
    position = {name: str(origin[name]) for name in ("pipeline", "step") if name in origin}
    run_job = RunJob(job, 0, None)
    return JobRequest(
        plugin=run_job.plugin,
        command=run_job.command,
        payload=job.payload if job.has_payload else None,
        submitted_by="cli",
        event=event if isinstance(event, dict) else None,
        context_id=_text(origin.get("context_id")),
        parent=before or job,
        parent_job_id=_text(origin.get("parent_job_id")),
        source_event_id=_text(origin.get("source_event_id")),
        origin=position | {"again": job.id},
    )


def _was_submitted(bus: LocalBus, job: Message) -> bool:
    """Whether a message is a job by a step: its row says so, or an attempt at it is logged."""
    name = PREFIX + plugin_of(job)
    rows = Jobs.of(bus).named([(name, job.seq)])
    if rows:
        return rows[0].error != UNPROVEN
    return bool(JobLog.of(bus).of_job(job.id))


def _below(bus: LocalBus, root: Message) -> list[tuple[Message, int]]:
    """Return the jobs below a message and itself, in order, each with its depth."""
    depths = {root.id: 0}
    jobs = []
    for message in bus.read(conversation=root.conversation, after_seq=root.seq - 1):
        if message.id != root.id:
            above = depths.get(message.in_reply_to or "")
            if above is None:
                continue
            depths[message.id] = above
        if is_job(message):
            jobs.append((message, depths[message.id]))
            depths[message.id] += 1
    return jobs


def is_job(message: Message) -> bool:
    """Tell whether a message is the job of a plugin."""
    return message.type.startswith(PREFIX) and message.type.count(".") > 1


def plugin_of(job: Message) -> str:
    """Return the plugin of a job, whose name has no dot, or the name of conditions, which has."""
    return SWITCH if job.type == events.TYPE else job.type.split(".", 2)[1]


def _jobs_of(bus: LocalBus, messages: list[tuple[Message, int]]) -> tuple[RunJob, ...]:
    run_jobs = [RunJob(message, depth, None) for message, depth in messages]
    names = [(PREFIX + run_job.plugin, run_job.message.seq) for run_job in run_jobs]
    jobs = {job.seq: job for job in Jobs.of(bus).named(names)}
    every = (replace(run_job, job=jobs.get(run_job.message.seq)) for run_job in run_jobs)
    return tuple(
        run_job for run_job in every if run_job.job is None or run_job.job.error != UNPROVEN
    )


def _ts(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_ts(at_ms)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# Runs on request: how one begins, in one transaction, and its result when it is over.


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
