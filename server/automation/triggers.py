"""Triggers: a command of a plugin or a pipeline; and the callers that wait for their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field

from ...automation.config.models import ApiConfig, Pipeline
from ...automation.jobs.plugin_run import HANDLE
from ...automation.jobs.submission import JobRequest, Submission
from ...automation.routes.conditions import CompiledPipeline
from ...automation.routes.tree import RunTree, wait
from ...automation.runs import PipelineRun, begin_run, result_of
from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, NotFound
from ...schema.message.names import did_you_mean
from ..access.access import TheClient
from ..access.tokens import Scope, TooManyRequests
from ..api.common import TheBus, json_of
from ..waiting import in_thread, until_gone
from .access import PayloadBody, PluginName, TheConfig, guarded_router, problems
from .job_records import record_of
from .jobs import AutomationJobRecord

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
        hint = (
            did_you_mean(plugin, config.plugins)
            if running is None
            else did_you_mean(command, running.manifest.commands)
        )
        raise NotFound(f"there is no command {command!a} of a plugin {plugin!a}{hint}")
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
