"""The router: which jobs follow when a job ends, an event comes, or a pipeline is to run.

It uses one configuration, and reads nothing but contexts. The jobs that it returns are submitted in
the same transaction, so nothing is left to route after a crash.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.draft import Draft
from ...subscribers.jobs.jobs import SUCCEEDED
from ...subscribers.jobs.policy import AUTOMATION
from ..config.values import SWITCH, near
from ..jobs.events import EVENT, EVENT_TYPE
from ..jobs.plugin_run import FAULT
from ..jobs.submission import AGENTS
from .conditions import compiled, holds, is_whole
from .flow import (
    STARTED,
    Contexts,
    hooked,
    is_root,
    is_routed,
    of_event,
    origin_of,
    outside,
    silent,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ..config.models import Config, Route
    from ..jobs.endings import JobEnd
    from ..jobs.events import EventOut
    from ..jobs.submission import JobRequest, SubmittedBy
    from .conditions import CompiledPipeline, JobNode
    from .flow import Context, Flow, NextJob

# Which routes and pipelines an event reaches: an exact match, found by its hash.


class Index:
    """The routes and pipelines of a configuration, which was checked, in its order.

    Attributes:
        pipelines: all of them, by name.
    """

    def __init__(self, config: Config) -> None:
        named = {pipeline.name: pipeline for pipeline in config.pipelines}
        self.pipelines: Mapping[str, CompiledPipeline] = {
            name: compiled(pipeline, named)
            for name, pipeline in named.items()
            if is_whole(pipeline, named)
        }
        self._routes: dict[tuple[str, str], list[Route]] = defaultdict(list)
        self._on: dict[str, list[CompiledPipeline]] = defaultdict(list)
        self._on_hook: dict[str, list[CompiledPipeline]] = defaultdict(list)
        for route in config.routes:
            self._routes[route.source, route.event_type].append(route)
        for compiled_pipeline in self.pipelines.values():
            if compiled_pipeline.pipeline.on is not None:
                self._on[compiled_pipeline.pipeline.on].append(compiled_pipeline)
            if compiled_pipeline.pipeline.on_hook is not None:
                self._on_hook[compiled_pipeline.pipeline.on_hook].append(compiled_pipeline)

    def pipeline(self, name: str) -> CompiledPipeline:
        """Return a pipeline.

        Raises:
            NotFound: there is none of this name; one that is near is named.
        """
        pipeline = self.pipelines.get(name)
        if pipeline is None:
            raise NotFound(f"there is no pipeline {name!r}{near(name, self.pipelines)}")
        return pipeline

    def routes(self, plugin: str, event_type: str) -> list[Route]:
        """Return the routes of an event."""
        return self._routes.get((plugin, event_type), [])

    def begun_by(self, plugin: str | None, event_type: str) -> list[CompiledPipeline]:
        """Return the pipelines that an event begins; the plugin None is no plugin's event."""
        return _of_plugin(self._on.get(event_type, []), plugin)

    def hooked_on(self, plugin: str, signal: str) -> list[CompiledPipeline]:
        """Return the pipelines that the end of a job of a plugin begins."""
        return _of_plugin(self._on_hook.get(signal, []), plugin)


def _of_plugin(pipelines: list[CompiledPipeline], plugin: str | None) -> list[CompiledPipeline]:
    return [pipeline for pipeline in pipelines if pipeline.pipeline.from_plugin in (None, plugin)]


#: The signals for pipelines with `on-hook`, by the status of a job that is over.
SIGNALS = {
    "succeeded": ("job.completed",),
    "failed": ("job.completed", "job.failed"),
    "dead": ("job.completed", "job.failed"),
    "timed_out": ("job.completed", "job.timed_out"),
}

_log = logging.getLogger("ackbus.automation.routes")


class Router:
    """Follows events by a configuration that was checked.

    Args:
        bus: an open bus.
        config: the configuration.
        plugins: the names of those that run; what leads to others is left out.
    """

    def __init__(self, bus: LocalBus, config: Config, plugins: Collection[str]) -> None:
        self._bus = bus
        self._config = config
        self._plugins = plugins
        self._contexts = Contexts.of(bus)
        self._index = Index(config)

    # Asked in a transaction --------------------------------------------------------------------

    def successors(
        self, ended: JobEnd, events: Sequence[EventOut], result: object
    ) -> tuple[JobRequest, ...]:
        """Return the jobs that follow one that is over, and store their contexts.

        They are to be submitted in the transaction that ends it.

        Args:
            ended: the job.
            events: the events that it has published.
            result: the text of its plugin's result.
        """
        return self._keep(self.plan(ended, events, result))

    def triggered_by(
        self, event: Message, event_type: str, *, submitted_by: SubmittedBy
    ) -> tuple[JobRequest, ...]:
        """Return the jobs that begin with an event from outside, which no plugin has published."""
        flow = outside(event, event_type, submitted_by)
        return self._keep(list(self._pipelines_on(flow, None, event_type)))

    def begin(
        self,
        name: str,
        payload: object,
        *,
        submitted_by: SubmittedBy,
        parent: Message | None = None,
        event_id: str | None = None,
    ) -> tuple[JobRequest, ...]:
        """Publish the event of a run, and return the jobs with which the pipeline begins.

        Args:
            name: of the pipeline.
            payload: of its event.
            submitted_by: the producer of the run.
            parent: a message that asks for it; None begins a conversation.
            event_id: of the event; None: a new one.

        Raises:
            NotFound: there is no such pipeline.
            InvalidInput: the input of a step can't be built, or no step is to run.
        """
        pipeline = self._index.pipeline(name)
        event_type = pipeline.pipeline.on or STARTED
        draft = Draft(
            EVENT,
            payload,
            id=event_id,
            from_agent=AGENTS[submitted_by],
            to_agent=AUTOMATION,
            in_reply_to=None if parent is None else parent.id,
            headers={EVENT_TYPE: event_type, "pipeline": name},
        )
        with self._bus.transaction():
            (receipt,) = self._bus.log.append([draft])
            event = self._bus.get(receipt.seq)
            assert event is not None
            planned = self._begun(pipeline, outside(event, event_type, submitted_by))
            return self._keep(planned)

    # Asked at any time -------------------------------------------------------------------------

    def plan(self, ended: JobEnd, events: Sequence[EventOut], result: object) -> list[NextJob]:
        """Return the jobs that follow one that is over; stores nothing."""
        planned: list[NextJob] = []
        if ended.state == SUCCEEDED:
            for event in events:
                planned += self.after_event(ended, event)
            if not events:
                planned += self.after_silence(ended, result)
        return [*planned, *self._hooks(ended, result)]

    def after_event(self, ended: JobEnd, event: EventOut) -> list[NextJob]:
        """Return the jobs that follow an event of a job; stores nothing."""
        at = self._position(ended.message)
        if at is None and not is_routed(ended.message):
            return []
        return list(self._after(ended, event, at))

    def after_silence(self, ended: JobEnd, result: object) -> list[NextJob]:
        """Return the steps that follow one that has published nothing; stores nothing."""
        at = self._position(ended.message)
        return [] if at is None else list(self._steps_after(silent(ended, result), at))

    # -------------------------------------------------------------------------------------------

    def _after(
        self,
        ended: JobEnd,
        event: EventOut,
        at: tuple[CompiledPipeline, JobNode, Context | None] | None,
    ) -> Iterator[NextJob]:
        flow = of_event(ended, event)
        if at is not None:
            yield from self._steps_after(flow, at)
        is_unrouted = at is None
        for route in self._index.routes(ended.plugin, event.type):
            is_unrouted = False
            if self._runs(route.to):
                yield flow.of_route(route)
        context = None if at is None else at[2]
        for planned in self._pipelines_on(flow, ended.plugin, event.type, context):
            is_unrouted = False
            yield planned
        if is_unrouted:
            _log.debug("event %r of %s has no route", event.type, ended.plugin)

    def _steps_after(
        self, flow: Flow, at: tuple[CompiledPipeline, JobNode, Context | None]
    ) -> Iterator[NextJob]:
        pipeline, job, context = at
        flow = replace(flow, context=context)
        yield from self._running(flow.steps(pipeline, job.then, self._config, how="then"))

    def _pipelines_on(
        self, flow: Flow, plugin: str | None, event_type: str, context: Context | None = None
    ) -> Iterator[NextJob]:
        """Yield the first jobs of the pipelines that an event begins.

        Their conditions may ask about the context of the job that has published it; the run itself
        has a context of its own.
        """
        values = dict(context.values) if context else {}
        for pipeline in self._index.begun_by(plugin, event_type):
            scope = {"payload": flow.payload, "context": values}
            if holds(pipeline.pipeline.condition, scope):
                yield from self._begin(pipeline, flow)

    def _begin(self, pipeline: CompiledPipeline, flow: Flow) -> Iterator[NextJob]:
        yield from self._running(flow.steps(pipeline, pipeline.entries, self._config, how="begin"))

    def _begun(self, pipeline: CompiledPipeline, flow: Flow) -> list[NextJob]:
        name = pipeline.pipeline.name
        jobs = list(self._begin(pipeline, flow))
        for planned in jobs:
            if fault := planned.request.origin.get(FAULT):
                step = planned.request.origin["step"]
                raise InvalidInput(f"pipeline {name!r} can't begin: step {step}: {fault}")
        if not jobs:
            raise InvalidInput(f"pipeline {name!r} has nothing to run for this payload")
        return jobs

    def _hooks(self, ended: JobEnd, result: object) -> Iterator[NextJob]:
        settings = self._config.plugins.get(ended.plugin)
        if settings is None or not settings.notify_on_complete or not is_root(ended.message):
            return
        for signal in SIGNALS.get(ended.status or ended.state, ()):
            flow = hooked(ended, signal, result)
            for pipeline in self._index.hooked_on(ended.plugin, signal):
                if holds(pipeline.pipeline.condition, {"payload": flow.payload, "context": {}}):
                    yield from self._begin(pipeline, flow)

    def _position(self, job: Message) -> tuple[CompiledPipeline, JobNode, Context | None] | None:
        """Return the place of a job in a run, or None."""
        origin = origin_of(job)
        name, step, context_id = (origin.get(key) for key in ("pipeline", "step", "context_id"))
        pipeline = self._index.pipelines.get(name) if isinstance(name, str) else None
        node = pipeline.jobs.get(step) if pipeline and isinstance(step, str) else None
        if pipeline is None or node is None:
            if name is not None:
                _log.warning("pipeline %r has no step %r any more: its run ends", name, step)
            return None
        context = self._contexts.get(context_id) if isinstance(context_id, str) else None
        return pipeline, node, context

    def _running(self, planned: Iterable[NextJob]) -> Iterator[NextJob]:
        """Yield the jobs whose plugins run, and with each condition what its event begins."""
        for job in planned:
            if job.event is not None:
                yield job
                yield from self._after_condition(job.event)
            elif self._runs(job.request.plugin):
                yield job

    def _after_condition(self, flow: Flow) -> Iterator[NextJob]:
        for route in self._index.routes(SWITCH, flow.event_type):
            if self._runs(route.to):
                yield flow.of_route(route)
        yield from self._pipelines_on(flow, SWITCH, flow.event_type)

    def _runs(self, plugin: str) -> bool:
        if plugin in self._plugins:
            return True
        _log.warning("plugin %r does not run: a job for it is left out", plugin)
        return False

    def _keep(self, planned: list[NextJob]) -> tuple[JobRequest, ...]:
        for job in planned:
            if job.context is not None:
                self._contexts.add(job.context)
        return tuple(job.request for job in planned)
