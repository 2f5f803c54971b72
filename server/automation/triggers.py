"""Triggers, which begin jobs and wait for their end; and jobs: what became of them."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field

from ...automation.config.models import ApiConfig, Pipeline
from ...automation.jobs.plugin_run import HANDLE
from ...automation.jobs.submission import JobRequest, Submission, queue_of, queues_of_plugins
from ...automation.records.facts import JobLog, LogFilter
from ...automation.routes.conditions import CompiledPipeline
from ...automation.routes.runs import (
    PipelineRun,
    RunJob,
    RunTree,
    begin_run,
    cancel,
    is_job,
    plugin_of,
    result_of,
    wait,
)
from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts, parse_ts
from ...schema.paging import pages, seq_of
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import (
    CANCELLED,
    DEAD,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    Job,
    Jobs,
)
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.views import Views
from ...subscribers.views import list_jobs as list_jobs_of
from ..access.access import TheClient
from ..access.tokens import Scope, TooManyRequests
from ..api.common import MAX_PAGE, TheBus, json_of
from ..waiting import in_thread, until_gone
from .access import PayloadBody, PluginName, TheConfig, guarded_router, problems

# Callers that wait for a run: a bounded number of them, each for a bounded time.

#: When a caller that finds no place may try again, in seconds.
_RETRY_S = 1.0


class WaitingCallers:
    """The callers that wait. Used from the event loop alone, but for `close`.

    Args:
        bus: the bus of the runs.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._count = 0
        self._is_closed = threading.Event()

    @contextmanager
    def place(self, places: int) -> Iterator[None]:
        """Count as a waiting caller inside the block.

        Raises:
            TooManyRequests: so many wait already.
        """
        if self._count >= places:
            why = f"{places} callers wait for pipelines already; ask with ?async=true, or again"
            raise TooManyRequests(why, _RETRY_S)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def wait(self, request: Request, root: str, timeout_s: float) -> RunTree:
        """Wait for a run, as long as the client does, and return its tree as it is then.

        Each waits in a thread of its own: their number is bounded.

        Raises:
            AckbusError: the bus can't be read.
        """
        is_gone = threading.Event()

        def is_wanted() -> bool:
            return not (is_gone.is_set() or self._is_closed.is_set())

        async def leave_with_client() -> None:
            await until_gone(request.receive)
            is_gone.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_with_client)
            waiting = partial(wait, self._bus, root, timeout_s, is_wanted)
            outcome: RunTree | AckbusError
            try:
                outcome = await anyio.to_thread.run_sync(waiting, limiter=anyio.CapacityLimiter(1))
            except (
                AckbusError
            ) as error:  # raised in the task group, it would become an ExceptionGroup
                outcome = error
            tasks.cancel_scope.cancel()
        if isinstance(outcome, AckbusError):
            raise outcome
        return outcome

    def close(self) -> None:
        """End all waiting, from any thread: what they wait for runs on."""
        self._is_closed.set()


router = guarded_router("triggers")

CommandName = Annotated[str, Path(min_length=1, max_length=128, description="Its command.")]

#: The type of the event that a triggered `handle` gets.
_TRIGGER = "api.trigger"
PipelineName = Annotated[str, Path(min_length=1, max_length=128, description="A pipeline.")]
IsAsync = Annotated[bool, Query(alias="async", description="Don't wait for the run.")]

_RUNS_ON = "Pipeline still running after timeout."


class AcceptedJob(BaseModel):
    """The job of a trigger, which waits for its turn."""

    job_id: str = Field(description="Its id, for `/job/{job_id}`.")
    status: str = Field(examples=["queued"])
    plugin: str
    command: str


@router.post(
    "/plugin/{plugin}/{command}",
    status_code=202,
    response_model=AcceptedJob,
    responses=problems(404, 408, 413, 415, 429),
)
def trigger(
    plugin: PluginName,
    command: CommandName,
    bus: TheBus,
    config: TheConfig,
    who: TheClient,
    body: PayloadBody | None = None,
) -> dict[str, Any]:
    """Run a command of a plugin: exactly one job, whose events no route or pipeline follows.

    A command of the type `read` asks for `plugin:ro`, any other one for `plugin:rw`.
    """
    running = config.plugins.get(plugin)
    declared = None if running is None else running.manifest.commands.get(command)
    if declared is None:
        raise NotFound(f"there is no command {command!a} of a plugin {plugin!a}")
    if declared.type != "read":
        who.require(Scope.PLUGIN_RW)
    payload = (body.payload if body else None) or {}
    event = {"type": _TRIGGER} if command == HANDLE else None
    request = JobRequest(
        plugin=plugin, command=command, payload=payload, submitted_by="api", event=event
    )
    done = Submission(bus).submit(request)
    return {"job_id": done.job_id, "status": "queued", "plugin": plugin, "command": command}


class RunBegun(BaseModel):
    """A run that goes on."""

    job_id: str = Field(description="Its first job, for `/job/{job_id}/tree`.")
    status: str = Field(examples=["queued"])
    plugin: str | None = Field(None, examples=["pipeline"])
    command: str | None = Field(None, description="The pipeline.")
    root: str = Field(description="The event of the run, for `/job/{root}/tree`: all its jobs.")
    job_ids: list[str] = Field(description="All jobs that it began with.")
    timeout_exceeded: bool | None = None
    message: str | None = None


class RunEnded(BaseModel):
    """A run that is over."""

    job_id: str
    status: str = Field(description="`succeeded`, or how the first job that failed has ended.")
    duration_ms: int
    result: dict[str, Any] | None = Field(
        None,
        description="The answer of its last step; of a pipeline with several ends a map of the"
        " answers by the ids of their steps.",
    )
    root: str
    tree: list[AutomationJobRecord]


@router.post(
    "/pipeline/{pipeline}",
    status_code=202,
    response_model=RunBegun,
    responses=problems(404, 408, 413, 415, 429)
    | {200: {"model": RunEnded, "description": "The whole run, where it is synchronous."}},
)
async def run_pipeline(
    request: Request,
    pipeline: PipelineName,
    bus: TheBus,
    config: TheConfig,
    is_async: IsAsync = False,
    body: PayloadBody | None = None,
) -> Response:
    """Begin a run. A synchronous pipeline is waited for, as long as it and `api` allow."""
    entry = config.index.pipeline(pipeline)
    settings = config.config.api or ApiConfig()
    waits = entry.pipeline.execution_mode == "synchronous" and not is_async
    payload = (body.payload if body else None) or {}
    bridge: WaitingCallers = request.app.state.bridge
    begin = partial(begin_run, bus, config.router, pipeline, payload, submitted_by="api")
    with bridge.place(settings.max_concurrent_sync) if waits else nullcontext():
        began = time.monotonic()
        run = await in_thread(partial(begin, one_job=waits))
        if not waits:
            return json_of(_begun(run, pipeline), 202)
        tree = await bridge.wait(request, run.root, _timeout_s(entry.pipeline, settings))
        if not tree.is_over:
            return json_of(_running(run), 202)
        lasted_s = time.monotonic() - began
        return json_of(await in_thread(partial(_ended, bus, run, entry, tree, lasted_s)))


def _timeout_s(pipeline: Pipeline, settings: ApiConfig) -> float:
    return min(pipeline.timeout_s, settings.max_sync_timeout_s)


def _begun(run: PipelineRun, pipeline: str) -> dict[str, Any]:
    facts = {"status": "queued", "plugin": "pipeline", "command": pipeline}
    return {"job_id": run.jobs[0]} | facts | {"root": run.root, "job_ids": run.jobs}


def _running(run: PipelineRun) -> dict[str, Any]:
    facts = {"status": "running", "timeout_exceeded": True, "message": _RUNS_ON}
    return {"job_id": run.jobs[0]} | facts | {"root": run.root, "job_ids": run.jobs}


def _ended(
    bus: LocalBus, run: PipelineRun, pipeline: CompiledPipeline, tree: RunTree, lasted_s: float
) -> dict[str, Any]:
    return {
        "job_id": run.jobs[0],
        "status": tree.state,
        "duration_ms": round(lasted_s * 1000),
        "result": result_of(bus, run, pipeline, tree),
        "root": run.root,
        "tree": [record_of(bus, job) for job in tree.jobs],
    }


# The JSON of jobs: of one with the answer of its plugin, and of lists.

#: The words of a run's jobs, where the API has others.
_NAMES = {"error": "last_error"}
#: The states that the API has another word for.
_SHOWN_STATES = {CANCELLED: DEAD}

#: The words by which a client may filter by state.
Status = Literal[
    "queued",
    "running",
    "succeeded",
    "failed",
    "timed_out",
    "dead",
    "pending",
    "ok",
    "completed",
    "error",
]

_STATES: dict[str, tuple[str, ...]] = {
    **{state: (state,) for state in (QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT)},
    "dead": (DEAD, CANCELLED),
    "pending": (QUEUED,),
    "ok": (SUCCEEDED,),
    "completed": (SUCCEEDED,),
    "error": (FAILED,),
}
#: How many jobs are looked at, at most, to tell how many there are.
MAX_COUNTED = 10_000
#: How many of the newest jobs of a queue are counted where that reads no message.
_WALKED = 100_000
#: How many jobs of a queue are read at once.
_PAGE = 200


def job_of(bus: LocalBus, job_id: str) -> RunJob:
    """Return a job of a plugin.

    Raises:
        NotFound: there is none of this id.
    """
    message = bus.get(job_id)
    if message is None or not is_job(message):
        raise NotFound(f"there is no job {job_id[:100]!a}")
    queue = queue_of(plugin_of(message))
    waits = _is_to_be_looked_at(bus, queue, message.seq)  # first: it may change meanwhile
    jobs = Jobs.of(bus).named([(queue, message.seq)])
    if not (jobs or waits or JobLog.of(bus).of_job(message.id)):
        raise NotFound(f"no queue has a job {job_id[:100]!a}; it may have left it, long ago")
    return RunJob(message, 0, jobs[0] if jobs else None)


def _is_to_be_looked_at(bus: LocalBus, queue: str, seq: int) -> bool:
    try:
        return Queues(bus).get(queue).filled_seq < seq
    except QueueNotFound:
        return False


def job_summary(job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent and without its result."""
    record = {_NAMES.get(name, name): value for name, value in job.record().items()}
    del record["depth"]
    record["status"] = _SHOWN_STATES.get(job.state, job.state)
    record["submitted_by"] = job.message.headers.get("submitted_by")
    return _present(record)


def record_of(bus: LocalBus, job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent: its result stands there once it is over."""
    record, log = job_summary(job), JobLog.of(bus).of_job(job.message.id)
    if not log or not (job.job is None or job.is_over):
        return record
    last = log[-1]
    if job.job is None:  # it has left the tables, long after its end
        record |= {"status": last.status, "completed_at": last.completed_at}
        record["last_error"] = last.last_error
    return _present(record | {"result": last.answer})


def _present(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True)
class JobFilter:
    """The jobs that are wanted; None is any.

    Attributes:
        plugin, command: the plugin and the command that they run.
        status: their state.
    """

    plugin: str | None = None
    command: str | None = None
    status: Status | None = None


def jobs_list(bus: LocalBus, filters: JobFilter, limit: int) -> dict[str, Any]:
    """Return the newest jobs as JSON, and how many there are.

    Only the messages have the command, so the newest of them are searched for it.
    """
    names = [info for info in queues_of_plugins(bus) if _is_of(info.name, filters.plugin)]
    walks = [_walk(Queue(bus, info), filters.status) for info in names]
    newest: Iterator[RunJob] = heapq.merge(*walks, key=lambda job: -job.message.seq)
    if filters.command is None:
        page = list(islice(newest, limit))
        states = () if filters.status is None else _STATES[filters.status]
        total = sum(Views.of(bus).count(info, states, _WALKED) for info in names)
    else:
        jobs = [job for job in islice(newest, MAX_COUNTED) if job.command == filters.command]
        page, total = jobs[:limit], len(jobs)
    return {"jobs": [job_summary(job) for job in page], "total": min(total, MAX_COUNTED)}


def _is_of(queue: str, plugin: str | None) -> bool:
    return plugin is None or queue == queue_of(plugin)


def _walk(queue: Queue, status: Status | None) -> Iterator[RunJob]:
    """Yield the jobs of a queue, the newest first."""
    states = () if status is None else _STATES[status]

    def jobs_before(seq: int) -> list[Job]:
        return list_jobs_of(queue, states, _PAGE, before_seq=seq)

    for page in pages(jobs_before, MAX_SEQ, place=seq_of, what="jobs", backwards=True):
        yield from filter(None, (_job(queue.bus, job) for job in page))


def _job(bus: LocalBus, job: Job) -> RunJob | None:
    message = bus.log.readable(job.seq)
    return None if message is None else RunJob(message, 0, job)


def logs_list(
    bus: LocalBus, filters: LogFilter, limit: int, *, include_result: bool
) -> dict[str, Any]:
    """Return the attempts that ended last as JSON, and how many there are."""
    log = JobLog.of(bus)
    entries = []
    for entry in log.find(filters, limit):
        record = asdict(entry)
        record["log_id"] = record.pop("id")
        record["job_id"] = entry.id.rpartition("-")[0]
        del record["result"]
        if include_result:
            record["result"] = entry.answer
        entries.append({name: value for name, value in record.items() if value is not None})
    return {"logs": entries, "total": log.count(filters, MAX_COUNTED)}


def log_statuses(status: Status | None) -> tuple[str, ...]:
    """Return the states of attempts that a word stands for; empty for all."""
    return () if status is None else _STATES[status]


# Jobs: what became of one, and of all that followed it.

jobs_router = guarded_router("jobs")

JobId = Annotated[str, Path(min_length=1, max_length=255, description="The id of a job.")]


class AutomationJobRecord(BaseModel):
    """A job; what is not known yet is left out."""

    job_id: str
    status: str = Field(description="`queued`, `running`, `succeeded`, `failed`, … or `dead`.")
    plugin: str
    command: str
    attempt: int = Field(description="The attempt that is next, runs, or was the last; from 1.")
    submitted_by: str | None = Field(None, description="`scheduler`, `webhook`, `route`, …")
    parent_job_id: str | None = None
    pipeline: str | None = None
    step: str | None = None
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None
    last_error: str | None = None
    result: dict[str, Any] | None = Field(None, description="The answer of its plugin.")


class AutomationJobList(BaseModel):
    """Jobs, the newest first."""

    jobs: list[AutomationJobRecord]
    total: int = Field(
        description=f"How many there are; {MAX_COUNTED} at most are counted, or looked at."
    )


class LogRecord(BaseModel):
    """An attempt at a job that has ended."""

    job_id: str
    log_id: str
    plugin: str
    command: str
    status: str
    attempt: int
    submitted_by: str
    created_at: str
    completed_at: str
    last_error: str | None = None
    stderr: str | None = None
    result: dict[str, Any] | None = None
    parent_job_id: str | None = None
    source_event_id: str | None = None


class LogList(BaseModel):
    """Attempts, those that ended last first."""

    logs: list[LogRecord]
    total: int = Field(description=f"How many there are; {MAX_COUNTED} at most are counted.")


OfPlugin = Annotated[str | None, Query(min_length=1, max_length=128, description="Of a plugin.")]
OfCommand = Annotated[str | None, Query(min_length=1, max_length=128, description="Of a command.")]
OfStatus = Annotated[Status | None, Query(description="In a state.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]


@jobs_router.get("/job/{job_id}", response_model=AutomationJobRecord, responses=problems(404))
def show_job(job_id: JobId, bus: TheBus) -> Response:
    """Show a job, and its result as soon as it is over."""
    return json_of(record_of(bus, job_of(bus, job_id)))


@jobs_router.get(
    "/job/{job_id}/tree", response_model=list[AutomationJobRecord], responses=problems(404)
)
def show_tree(job_id: JobId, bus: TheBus) -> Response:
    """Show a job with all that followed it; of the event of a run, all jobs of the run."""
    return json_of([record_of(bus, job) for job in _tree_of(bus, job_id).jobs])


@jobs_router.post("/job/{job_id}/cancel", responses=problems(404))
def cancel_tree(job_id: JobId, bus: TheBus) -> Response:
    """Cancel a job and all that followed it, as far as they are not over: their programs end."""
    root = _tree_of(bus, job_id).root
    return json_of({"cancelled": [job.message.id for job in cancel(bus, str(root.seq))]})


def _tree_of(bus: LocalBus, job_id: str) -> RunTree:
    """Return the tree of a job, or of the event of a run: by its id alone, as of `/job`.

    Raises:
        NotFound: there is none.
    """
    root = bus.get(job_id)
    tree = None if root is None else RunTree.of(bus, str(root.seq))
    if tree is None or not tree.jobs:
        raise NotFound(f"there is no job {job_id[:100]!a}")
    return tree


@jobs_router.get("/jobs", response_model=AutomationJobList, responses=problems())
def list_jobs(
    bus: TheBus,
    plugin: OfPlugin = None,
    command: OfCommand = None,
    status: OfStatus = None,
    limit: Limit = 50,
) -> Response:
    """List jobs, the newest first."""
    return json_of(jobs_list(bus, JobFilter(plugin, command, status), limit))


@jobs_router.get("/job-logs", response_model=LogList, responses=problems())
def list_logs(
    bus: TheBus,
    job_id: Annotated[str | None, Query(min_length=1, max_length=255)] = None,
    plugin: OfPlugin = None,
    command: OfCommand = None,
    status: OfStatus = None,
    submitted_by: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    since: Annotated[str | None, Query(alias="from", description="RFC 3339.")] = None,
    until: Annotated[str | None, Query(alias="to", description="RFC 3339.")] = None,
    text: Annotated[
        str | None, Query(alias="query", max_length=1000, description="In errors and output.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
    include_result: Annotated[bool, Query(description="With the answers of plugins.")] = False,
) -> Response:
    """List the attempts at jobs that have ended, the newest first."""
    filters = LogFilter(
        job_id=job_id,
        plugin=plugin,
        command=command,
        submitted_by=submitted_by,
        statuses=log_statuses(status),
        since=_time(since),
        until=_time(until),
        text=text,
    )
    return json_of(logs_list(bus, filters, limit, include_result=include_result))


def _time(text: str | None) -> str | None:
    """Return a time as the log has it."""
    return None if text is None else format_ts(parse_ts(text))
