"""Jobs that follow from something: an event, the end of a job, or a wish to run a pipeline."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from ...schema.message.times import format_ts
from ...subscribers.jobs.hops import hops_of
from ..config.flows import SWITCH, SWITCH_EVENTS
from ..jobs.job_request import Answer, JobRequest
from ..jobs.plugin_run import FAULT, HANDLE
from .claims import context_of, payload_of
from .compiled import MAX_HOPS, Gate
from .conditions import holds
from .contexts import Context
from .derived_ids import derived_id
from .scope import FlowFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...schema.message.message import Message
    from ..config.flows import Route
    from ..config.snapshot import Config
    from ..jobs.job_request import SubmittedBy
    from .compiled import CompiledPipeline, Job, Node

#: The end of the name of a condition, after the name of its step.
ASKED = "__switch"

_log = logging.getLogger("ackbus.automation.routes")


@dataclass(frozen=True, slots=True)
class Planned:
    """A job that follows, and the context that it is to have.

    It has none outside of pipelines, nor in the run of a hook that claims no baggage. A condition
    has an `event` instead: the origin of what follows it by routes and pipelines.
    """

    request: JobRequest
    context: Context | None = None
    event: Flow | None = None


@dataclass(frozen=True, slots=True)
class _Opening:
    """The steps of a pipeline while they are opened, and what was reached; `how` as for `steps`."""

    pipeline: CompiledPipeline
    config: Config
    how: str
    seen: set[tuple[type[Node], str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """An origin of jobs.

    Attributes:
        source: the message from which their ids derive.
        occasion: what else their ids derive from, where one message is several occasions.
        payload: what they are given.
        event_type, event_source: what `handle` is told of it.
        submitted_by: who asks for them.
        parent: the message that they answer; None begins a conversation.
        parent_job_id, source_event_id: as their headers say.
        dedupe_key: of all of them.
        behind: the event of a condition between, by its id.
        context: of the run so far, which the next steps inherit.
        origin: what their headers say besides.
    """

    source: Message
    occasion: str = ""
    payload: object
    event_type: str
    event_source: str
    submitted_by: SubmittedBy = "route"
    parent: Message | None = None
    parent_job_id: str | None = None
    source_event_id: str | None = None
    dedupe_key: str | None = None
    behind: str | None = None
    context: Context | None = None
    origin: Mapping[str, str] = field(default_factory=dict)

    def of_route(self, route: Route) -> Planned:
        """Return the job of a route."""
        id = derived_id(self.source, f"{self.occasion}route {route.to}.{route.command}")
        fault = self._fault_of_hops(MAX_HOPS)
        return Planned(self._request(id, route.to, route.command, self.payload, {}, fault))

    def steps(
        self, pipeline: CompiledPipeline, nodes: tuple[Node, ...], config: Config, *, how: str
    ) -> Iterator[Planned]:
        """Yield the jobs of steps of a pipeline, and the conditions before them, each once.

        Args:
            pipeline: whose they are.
            nodes: what is next, gates included.
            config: what conditions may ask about.
            how: `begin` or `then`: the same step may be reached both ways, in different runs.
        """
        yield from self._open(_Opening(pipeline, config, how), nodes)

    def _open(self, opening: _Opening, nodes: tuple[Node, ...]) -> Iterator[Planned]:
        for node in nodes:
            if (type(node), node.key) in opening.seen:
                continue
            opening.seen.add((type(node), node.key))
            if isinstance(node, Gate):
                yield from self._through(opening, node)
            else:
                yield self._step(opening.pipeline, node, opening.how)

    def _through(self, opening: _Opening, gate: Gate) -> Iterator[Planned]:
        """Yield a condition with its answer, and what stands behind it."""
        settings = opening.config.plugins.get(gate.plugin)
        scope = self._scope() | {"config": dict(settings.config) if settings else {}}
        answer = holds(gate.condition, scope)
        if not answer:
            _log.info("step %s is left out: its condition does not hold", gate.key)
        name, key = opening.pipeline.pipeline.name, f"{gate.key}{ASKED}"
        target = f"{self.occasion}{opening.how} {name}/{key}"
        id, event_id = derived_id(self.source, target), derived_id(self.source, f"{target} event")
        origin = {"pipeline": name, "step": key}
        request = self._request(id, SWITCH, HANDLE, self.payload, origin, None)
        behind = replace(
            self,
            event_type=SWITCH_EVENTS[answer],
            event_source=SWITCH,
            parent_job_id=id,
            source_event_id=event_id,
            behind=event_id,
        )
        event = replace(behind, occasion=f"{id} ", context=None, origin={})
        yield Planned(replace(request, answer=Answer(answer, event_id)), event=event)
        yield from behind._open(opening, gate.inside if answer else gate.otherwise)

    def _step(self, pipeline: CompiledPipeline, job: Job, how: str) -> Planned:
        name = pipeline.pipeline.name
        id = derived_id(self.source, f"{self.occasion}{how} {name}/{job.key}")
        inherited = self.context.values if self.context else {}
        payload, values, fault = self.payload, inherited, self._fault_of_hops(pipeline.max_hops)
        try:
            values = context_of(job.step, self._scope())
            payload = payload_of(job.step, self._scope())
        except FlowFault as error:
            fault = fault or str(error)
        origin = {"pipeline": name, "step": job.key}
        request = self._request(id, job.step.plugin, job.step.command, payload, origin, fault)
        if self._is_of_hook(how) and not values:
            return Planned(request)
        context = Context(
            id=id,
            parent_id=self.context.id if self.context else None,
            pipeline=name,
            step=job.key,
            values=values,
            root_job_id=(self.context and self.context.root_job_id) or id,
        )
        return Planned(replace(request, context_id=id), context)

    def _is_of_hook(self, how: str) -> bool:
        """Tell whether a step is of a run that a hook began and that has no context so far."""
        return self.context is None and (how == "then" or "hook" in self.origin)

    def _scope(self) -> dict[str, object]:
        context = dict(self.context.values) if self.context else {}
        return {"payload": self.payload, "context": context}

    def _fault_of_hops(self, allowed: int | None) -> str | None:
        hops = hops_of(self.source)
        if allowed is None or hops <= allowed:
            return None
        return f"{hops} jobs stand one behind the other, and {allowed} may: is it a circle?"

    def _request(
        self,
        id: str,
        plugin: str,
        command: str,
        payload: object,
        origin: Mapping[str, str],
        fault: str | None,
    ) -> JobRequest:
        return JobRequest(
            id=id,
            plugin=plugin,
            command=command,
            payload=payload,
            submitted_by=self.submitted_by,
            dedupe_key=self.dedupe_key,
            event=self._event() if command == HANDLE else None,
            parent=self.parent,
            parent_job_id=self.parent_job_id,
            source_event_id=self.source_event_id,
            behind=self.behind,
            origin={**self.origin, **origin, **({FAULT: fault} if fault else {})},
        )

    def _event(self) -> dict[str, object]:
        event: dict[str, object] = {
            "type": self.event_type,
            "source": self.event_source,
            "timestamp": format_ts(self.source.ts_ms),
            "event_id": self.source_event_id or self.source.id,
        }
        return event | ({"dedupe_key": self.dedupe_key} if self.dedupe_key else {})
