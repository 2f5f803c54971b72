"""Pipelines without running them: which jobs would begin, their graph, and past events."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from ...schema.message.canonical_json import encode
from ...schema.message.message import message_of
from ...schema.message.names import new_id
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import SUCCEEDED, Jobs
from ...subscribers.queues.queues import Queues
from ..config.values import SWITCH
from ..jobs.endings import JobEnd
from ..jobs.events import EVENT, event_out
from ..jobs.plugin_run import FAULT
from ..jobs.submission import PREFIX
from .conditions import Gate, JobNode
from .flow import STARTED, STEP_SUCCEEDED, origin_of, outside
from .runs import RunJob, is_job, plugin_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ..config.models import Condition, Config, Route
    from .conditions import CompiledPipeline, Node
    from .flow import NextJob
    from .router import Router

    Target = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Preview:
    """A run before it is begun.

    Attributes:
        begins: the jobs with which it would begin, with all that they would be given.
        then: the steps that may follow, by their conditions and events.
    """

    begins: tuple[dict[str, Any], ...]
    then: tuple[dict[str, Any], ...]

    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"begins": list(self.begins), "then": list(self.then)}


def preview(config: Config, pipeline: CompiledPipeline, payload: object) -> Preview:
    """Return what a pipeline would do with a payload; stores nothing and needs no bus."""
    text = encode(payload).decode()
    row = (0, new_id(), 0, "cli", None, EVENT, None, None, text, None, 1, None)
    event = message_of(row, blobs=None)  # type: ignore[arg-type]  # its payload is in the row
    flow = outside(event, pipeline.pipeline.on or STARTED, "cli")
    begins: tuple[dict[str, Any], ...] = tuple(
        {
            "step": planned.request.origin["step"],
            "plugin": planned.request.plugin,
            "command": planned.request.command,
            "payload": planned.request.payload,
            "context": dict(planned.context.values) if planned.context else {},
            "fault": planned.request.origin.get(FAULT),
        }
        for planned in flow.steps(pipeline, pipeline.entries, config, how="begin")
        if planned.event is None  # of a condition
    )
    keys = [pipeline.jobs[step["step"]].then for step in begins]
    after = set(_keys(node for nodes in keys for node in nodes))
    then = tuple(step for step in steps_of(pipeline) if step["step"] in after)
    return Preview(begins, then)


def steps_of(pipeline: CompiledPipeline) -> list[dict[str, Any]]:
    """Return the steps of a pipeline as JSON, in order, each with those that may follow it."""
    return [
        {
            "step": key,
            "plugin": job.step.plugin,
            "command": job.step.command,
            "then": list(dict.fromkeys(_next(job.then))),
        }
        for key, job in pipeline.jobs.items()
    ]


def _next(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield the keys of the jobs that may be next, past all conditions."""
    for node in nodes:
        if isinstance(node, Gate):
            yield from _next(node.inside)
            yield from _next(node.otherwise)
        else:
            yield node.key


def _keys(nodes: Iterator[Node]) -> Iterator[str]:
    """Yield the keys of all jobs that some nodes lead to."""
    pending, visited = list(nodes), set()
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, Gate):
            pending += [*node.inside, *node.otherwise]
        else:
            yield node.key
            pending += node.then


# Pipelines and routes as a picture: a flowchart for Mermaid, which GitHub draws.

#: All but what has no meaning to Mermaid in a quoted label.
_SPECIAL = re.compile(r"[^\w .,/()=+-]")


def flowchart(pipelines: Iterable[CompiledPipeline], routes: Iterable[Route] = ()) -> str:
    """Return the text of a flowchart."""
    chart = _Chart()
    for pipeline in pipelines:
        chart.pipeline(pipeline)
    for route in routes:
        chart.route(route)
    return "\n".join(["flowchart TD", *chart.lines, ""])


def condition_text(condition: Condition) -> str:
    """Return a condition as text."""
    if condition.not_ is not None:
        return f"not ({condition_text(condition.not_)})"
    if parts := condition.all or condition.any:
        word = " and " if condition.all else " or "
        return word.join(f"({condition_text(part)})" for part in parts)
    value = "" if condition.op == "exists" else f" {condition.value}"
    return f"{condition.path} {condition.op}{value}"


class _Chart:
    """The lines of a flowchart; each node stands once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[object, str] = {}

    def pipeline(self, compiled: CompiledPipeline) -> None:
        pipeline = compiled.pipeline
        begin = pipeline.on or pipeline.on_hook or ""
        if pipeline.from_plugin:
            begin = f"{pipeline.from_plugin}: {begin}"
        if pipeline.condition:
            begin += f" if {condition_text(pipeline.condition)}"
        self.lines.append(f"  subgraph s{len(self.lines)}[{_quoted(pipeline.name)}]")
        start = self._node(pipeline.name, f"([{_quoted(begin)}])")
        self._arrows(start, compiled.entries)
        self.lines.append("  end")

    def route(self, route: Route) -> None:
        source = self._node(("plugin", route.source), f"[{_quoted(route.source)}]")
        target = self._node(("plugin", _called(route)), f"[{_quoted(_called(route))}]")
        self._arrow(source, route.event_type, target)

    def _arrows(self, source: str, nodes: tuple[Node, ...], label: str = "") -> None:
        for node in nodes:
            is_new = id(node) not in self._names
            self._arrow(source, label, self._node(id(node), _shape(node)))
            if not is_new:
                continue
            if isinstance(node, JobNode):
                self._arrows(self._names[id(node)], node.then)
            else:
                self._arrows(self._names[id(node)], node.inside, "yes")
                self._arrows(self._names[id(node)], node.otherwise, "no")

    def _node(self, key: object, shape: str) -> str:
        if key not in self._names:
            self._names[key] = f"n{len(self._names)}"
            self.lines.append(f"    {self._names[key]}{shape}")
        return self._names[key]

    def _arrow(self, source: str, label: str, target: str) -> None:
        arrow = f"-->|{_quoted(label)}|" if label else "-->"
        self.lines.append(f"    {source} {arrow} {target}")


def _shape(node: Node) -> str:
    if isinstance(node, JobNode):
        return f"[{_quoted(f'{node.key}: {node.step.uses}')}]"
    return f"{{{_quoted(f'{node.key}: {condition_text(node.condition)}')}}}"


def _called(route: Route) -> str:
    return route.to if route.command == "handle" else f"{route.to}.{route.command}"


def _quoted(text: str) -> str:
    """Return text quoted for a Mermaid label."""
    plain = " ".join(text.split())
    return f'"{_SPECIAL.sub(lambda match: f"#{ord(match[0])};", plain)}"'


# History through another configuration: which jobs would have followed each event, and which did.
#
# Nothing is stored, and nothing runs. Each event is looked at by itself: what the jobs that did
# not run would have published, nobody knows.


@dataclass(frozen=True, slots=True)
class Replayed:
    """An event of the log, or a step that has published none, with the jobs that follow from it.

    Attributes:
        message: of the event; of the job of a silent step.
        source: the plugin.
        event_type: its exact type.
        would: the jobs by the configuration: plugin, command, pipeline and step.
        did: the jobs that followed when it happened.
        faults: why jobs of `would` would fail before they begin.
    """

    message: Message
    source: str
    event_type: str
    would: tuple[Target, ...]
    did: tuple[Target, ...]
    faults: tuple[str, ...] = ()

    @property
    def added(self) -> list[Target]:
        """The jobs that did not follow then, and would now."""
        return list((Counter(self.would) - Counter(self.did)).elements())

    @property
    def dropped(self) -> list[Target]:
        """The jobs that followed then, and would not now."""
        return list((Counter(self.did) - Counter(self.would)).elements())

    def record(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "seq": self.message.seq,
            "id": self.message.id,
            "source": self.source,
            "event_type": self.event_type,
            "would": [_shown(target) for target in self.would],
            "did": [_shown(target) for target in self.did],
            "added": [_shown(target) for target in self.added],
            "dropped": [_shown(target) for target in self.dropped],
            "faults": list(self.faults),
        }


def replayed(bus: LocalBus, router: Router, first_seq: int) -> Iterator[Replayed]:
    """Yield the events from a seq on, in order, as a router would follow them now."""
    happened = _PastSuccessors(bus, first_seq)
    for message in bus.read(after_seq=first_seq - 1):
        if message.type == EVENT:
            job = _publisher(bus, message)
            if job is not None and plugin_of(job) != SWITCH:  # that is a part of what led to it
                yield _of_event(router, happened, job, message)
        elif is_job(message) and plugin_of(message) != SWITCH and happened.is_silent_step(message):
            yield _of_silence(router, happened, message)


class _PastSuccessors:
    """The jobs that followed each event, and each silent step."""

    def __init__(self, bus: LocalBus, first_seq: int) -> None:
        self._jobs, self._claims, self._queues = Jobs.of(bus), Claims.of(bus), Queues(bus)
        self._after: Mapping[str, list[Message]] = defaultdict(list)
        self._events: dict[str | None, str] = {}  # the newest of each job
        for message in bus.read(after_seq=first_seq - 1):
            origin = origin_of(message)
            if message.type == EVENT:
                self._events[message.in_reply_to] = message.id
            elif is_job(message) and "again" not in origin:
                before = origin.get("source_event_id") or origin.get("parent_job_id")
                self._after[str(before)].append(message)

    def after(self, message: Message) -> tuple[Target, ...]:
        return tuple(map(_target, self._jobs_after(message.id)))

    def _jobs_after(self, id: str) -> Iterator[Message]:
        """Yield the jobs that followed, those behind a condition too; conditions are none."""
        for job in self._after.get(id, ()):
            if plugin_of(job) == SWITCH:
                yield from self._jobs_after(self._events[job.id])
            else:
                yield job

    def is_silent_step(self, job: Message) -> bool:
        if job.id in self._events or "pipeline" not in origin_of(job):
            return False
        name = PREFIX + RunJob(job, 0, None).plugin
        return [stored.state for stored in self._jobs.named([(name, job.seq)])] == [SUCCEEDED]

    def result(self, job: Message) -> str | None:
        info = self._queues.get(PREFIX + RunJob(job, 0, None).plugin)
        claims = self._claims.of_job(info, job.seq)
        return claims[-1].result if claims else None


def _of_event(router: Router, happened: _PastSuccessors, job: Message, event: Message) -> Replayed:
    out = event_out(event)
    planned = router.after_event(_end(job), out)
    return _replayed(event, event.from_agent, out.type, planned, happened.after(event))


def _of_silence(router: Router, happened: _PastSuccessors, job: Message) -> Replayed:
    planned = router.after_silence(_end(job), happened.result(job))
    plugin = _end(job).plugin
    return _replayed(job, plugin, STEP_SUCCEEDED, planned, happened.after(job))


def _replayed(
    message: Message,
    source: str,
    event_type: str,
    planned: list[NextJob],
    did: tuple[Target, ...],
) -> Replayed:
    requests = [
        planned_job.request for planned_job in planned if planned_job.event is None
    ]  # no conditions
    would = tuple(
        _target_of(request.plugin, request.command, request.origin) for request in requests
    )
    faults = tuple(request.origin[FAULT] for request in requests if FAULT in request.origin)
    return Replayed(message, source, event_type, would, did, faults)


def _publisher(bus: LocalBus, event: Message) -> Message | None:
    """Return the job that has published an event; None where that is no event of its plugin."""
    job = None if event.in_reply_to is None else bus.get(event.in_reply_to)
    is_its = job is not None and is_job(job) and RunJob(job, 0, None).plugin == event.from_agent
    return job if is_its else None


def _end(job: Message) -> JobEnd:
    ran = RunJob(job, 0, None)
    return JobEnd(job, ran.plugin, ran.command, SUCCEEDED, 1, None)


def _target(job: Message) -> Target:
    ran = RunJob(job, 0, None)
    return _target_of(ran.plugin, ran.command, origin_of(job))


def _target_of(plugin: str, command: str, origin: Mapping[str, object]) -> Target:
    pipeline, step = origin.get("pipeline"), origin.get("step")
    if not isinstance(pipeline, str) or not isinstance(step, str):
        return plugin, command, None, None
    return plugin, command, pipeline, step


def _shown(target: Target) -> dict[str, str]:
    names = ("plugin", "command", "pipeline", "step")
    return {name: value for name, value in zip(names, target, strict=True) if value is not None}
