"""Jobs that follow from events and ends of jobs, and the contexts that they hand on."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace

import orjson

from ...schema.errors import NotFound
from ...schema.message.canonical_json import encode
from ...schema.message.times import format_ts, parse_ts
from ...schema.queries import Queries, Table
from ...subscribers.jobs.jobs import SUCCEEDED
from ...subscribers.jobs.outcomes import hops_of
from ..config.values import SWITCH, SWITCH_EVENTS
from ..jobs.plugin_run import FAULT, HANDLE
from ..jobs.submission import ConditionAnswer, JobRequest
from .conditions import MAX_HOPS, FlowFault, Gate, context_of, holds, payload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ...schema.message.message import Message
    from ..config.models import Config, Route
    from ..jobs.endings import JobEnd
    from ..jobs.events import EventOut
    from ..jobs.submission import SubmittedBy
    from .conditions import CompiledPipeline, JobNode, Node

# Ids derived from a job's source and target, so that a repetition makes the same job.


def derived_id(source: Message, target: str) -> str:
    """Return the one id for a target of a message: a UUID of version 8, in the order of time."""
    rest = hashlib.sha256(f"{source.id}\n{target}".encode()).hexdigest()
    begin = id_of_time(source.ts_ms)
    return f"{begin}8{rest[:3]}-{'89ab'[int(rest[3], 16) % 4]}{rest[4:7]}-{rest[7:19]}"


def id_of_time(ts_ms: int) -> str:
    """Return the beginning of the ids of a millisecond."""
    digits = f"{ts_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-"


def id_of(text: str) -> str:
    """Return the one id for a text: a UUID of version 8, which says nothing of a time."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    variant = "89ab"[int(digits[15], 16) % 4]
    begin = f"{digits[:8]}-{digits[8:12]}-8{digits[12:15]}"
    return f"{begin}-{variant}{digits[16:19]}-{digits[19:31]}"


# Contexts: the baggage of each step of a run, which is added to and never changed.

SQL = Queries(beside=__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of a step.

    Attributes:
        id: as the headers of the step's job name it.
        parent_id: the context that it extends, or None.
        pipeline, step: whose it is.
        values: the baggage.
        root_job_id: the first job of the run.
        created_at: when it was stored, as RFC 3339; "" before.
    """

    id: str
    parent_id: str | None = None
    pipeline: str = ""
    step: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    root_job_id: str | None = None
    created_at: str = ""


class Contexts(Table):
    """The table `event_context`."""

    def get(self, id: str) -> Context | None:
        """Return a context, or None."""
        row = self._engine.row(SQL["context"], (id,))
        if row is None:
            return None
        _, parent_id, pipeline, step, text, root_job_id, created_at = row
        return Context(
            id=id,
            parent_id=parent_id,
            pipeline=pipeline,
            step=step,
            values=orjson.loads(text),
            root_job_id=root_job_id,
            created_at=created_at,
        )

    def values(self, id: str | None) -> dict[str, object]:
        """Return the baggage of a context, which plugins get; empty without a context.

        Raises:
            NotFound: it was deleted, long after the end of its run.
        """
        if id is None:
            return {}
        context = self.get(id)
        if context is None:
            raise NotFound(f"there is no context {id} any more: its run ended long ago")
        return dict(context.values)

    def add(self, context: Context) -> None:
        """Store a context, in the transaction of its job; one that is there stays as it is."""
        if self.get(context.id) is not None:
            return
        at = format_ts(self._engine.now_ms())
        text = encode(context.values).decode()
        step = (context.pipeline, context.step)
        values = (context.id, context.parent_id, *step, text, context.root_job_id, at)
        self._engine.change(SQL["add_context"], values)

    def has_older(self, before: str) -> bool:
        """Whether there are contexts of before a time."""
        return bool(self._engine.value(SQL["has_older_contexts"], (_first_id(before),)))

    def runs_of(self, seqs: Sequence[int]) -> set[str]:
        """Return the runs, by the ids of their first jobs, of those jobs that have a context."""
        return {run for (run,) in self._engine.rows(SQL["runs_of_jobs"], (_json(seqs),))}

    def delete(self, before: str, limit: int, kept_runs: Collection[str]) -> int:
        """Delete contexts of before a time, at most so many; return how many went.

        Args:
            before: the time, as RFC 3339.
            limit: how many at most.
            kept_runs: the runs whose contexts stay.
        """
        values = (_first_id(before), _json([*kept_runs]), limit)
        return self._engine.count_changes(SQL["delete_contexts"], values)


def _first_id(at: str) -> str:
    """Return what no id of an earlier time comes after: ids begin with their time."""
    return id_of_time(parse_ts(at))


def _json(values: Sequence[object]) -> str:
    return orjson.dumps(values).decode()


#: The end of the name of a condition, after the name of its step.
ASKED = "__switch"

_log = logging.getLogger("ackbus.automation.routes")


@dataclass(frozen=True, slots=True)
class NextJob:
    """A job that follows, and the context that it is to have.

    It has none outside of pipelines, nor in the run of a hook that claims no baggage. A condition
    has an `event` instead: the origin of what follows it by routes and pipelines.
    """

    request: JobRequest
    context: Context | None = None
    event: Flow | None = None


@dataclass(frozen=True, slots=True)
class _StepWalk:
    """The steps of a pipeline while they are opened, and what was reached; `how` as for `steps`."""

    pipeline: CompiledPipeline
    config: Config
    how: str
    reached: set[tuple[type[Node], str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The source of some jobs, with all that they inherit from it.

    Attributes:
        source: the message from which their ids derive.
        occasion: what else their ids derive from, where one message is several occasions.
        payload: of the jobs.
        event_type, event_source: as a `handle` gets them.
        submitted_by: their producer.
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

    def of_route(self, route: Route) -> NextJob:
        """Return the job of a route."""
        id = derived_id(self.source, f"{self.occasion}route {route.to}.{route.command}")
        fault = self._fault_of_hops(MAX_HOPS)
        return NextJob(self._request(id, route.to, route.command, self.payload, {}, fault))

    def steps(
        self, pipeline: CompiledPipeline, nodes: tuple[Node, ...], config: Config, *, how: str
    ) -> Iterator[NextJob]:
        """Yield the jobs of steps of a pipeline, and the conditions before them, each once.

        Args:
            pipeline: whose they are.
            nodes: what is next, gates included.
            config: what conditions may ask about.
            how: `begin` or `then`: the same step may be reached both ways, in different runs.
        """
        yield from self._open(_StepWalk(pipeline, config, how), nodes)

    def _open(self, opening: _StepWalk, nodes: tuple[Node, ...]) -> Iterator[NextJob]:
        for node in nodes:
            if (type(node), node.key) in opening.reached:
                continue
            opening.reached.add((type(node), node.key))
            if isinstance(node, Gate):
                yield from self._through(opening, node)
            else:
                yield self._step(opening.pipeline, node, opening.how)

    def _through(self, opening: _StepWalk, gate: Gate) -> Iterator[NextJob]:
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
        yield NextJob(replace(request, answer=ConditionAnswer(answer, event_id)), event=event)
        yield from behind._open(opening, gate.inside if answer else gate.otherwise)

    def _step(self, pipeline: CompiledPipeline, job: JobNode, how: str) -> NextJob:
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
            return NextJob(request)
        context = Context(
            id=id,
            parent_id=self.context.id if self.context else None,
            pipeline=name,
            step=job.key,
            values=values,
            root_job_id=(self.context and self.context.root_job_id) or id,
        )
        return NextJob(replace(request, context_id=id), context)

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


# The sources of jobs, as flows: an event, a step without events, a request, a job's end.

#: The event of a step that has published none.
STEP_SUCCEEDED = "ductile.step.succeeded"

#: The event of a pipeline that is run by hand and has no event of its own.
STARTED = "ductile.pipeline.started"


def origin_of(job: Message) -> dict[str, object]:
    """Return the origin of a job from its headers."""
    origin = job.headers.get("job") if job.raw_headers else None
    return origin if isinstance(origin, dict) else {}


def is_routed(job: Message) -> bool:
    """Tell whether events of a job outside of runs are routed: one by the API runs alone."""
    return job.headers.get("submitted_by") != "api"


def is_root(job: Message) -> bool:
    """Tell whether a job follows from no other, and from no hook."""
    origin = origin_of(job)
    return "parent_job_id" not in origin and "hook" not in origin


def of_event(ended: JobEnd, event: EventOut) -> Flow:
    """Return what follows from an event of a job."""
    return Flow(
        source=event.message,
        payload=event.message.payload if event.message.has_payload else None,
        event_type=event.type,
        event_source=ended.plugin,
        parent=event.message,
        parent_job_id=ended.message.id,
        source_event_id=event.message.id,
        dedupe_key=event.dedupe_key,
    )


def silent(ended: JobEnd, result: object) -> Flow:
    """Return what follows from the success of a step that has published nothing."""
    return Flow(
        source=ended.message,
        payload={"result": result},
        event_type=STEP_SUCCEEDED,
        event_source=ended.plugin,
        parent=ended.message,
        parent_job_id=ended.message.id,
    )


def outside(event: Message, event_type: str, submitted_by: SubmittedBy) -> Flow:
    """Return what follows from an event that no plugin has published."""
    return Flow(
        source=event,
        payload=event.payload if event.has_payload else None,
        event_type=event_type,
        event_source=event.from_agent,
        submitted_by=submitted_by,
        parent=event,
        source_event_id=event.id,
    )


def hooked(ended: JobEnd, signal: str, result: object) -> Flow:
    """Return what begins at the end of a job, apart from all that led to it.

    Its ids derive from the claim too: a job that was tried again may end a second time.
    """
    return Flow(
        source=ended.message,
        occasion=f"{signal} {ended.message.token}",
        payload=_report(ended, result),
        event_type=signal,
        event_source=ended.plugin,
        origin={"hook": signal},
    )


def _report(ended: JobEnd, result: object) -> dict[str, object]:
    """Return the payload of a hook."""
    report: dict[str, object] = {
        "job_id": ended.message.id,
        "plugin": ended.plugin,
        "command": ended.command,
        "status": ended.state,
        "attempt": ended.attempt,
    }
    if ended.state == SUCCEEDED:
        return report | {"result": result}
    message = f"Job failed [{ended.plugin}]: {ended.error}"
    return report | {"error": ended.error, "message": message, "text": message}
