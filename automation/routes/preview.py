"""A run that is only looked at: the jobs with which a pipeline would begin, and what may follow."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.canonical_json import encode
from ...schema.message.ids import new_id
from ...schema.message.message import message_of
from ..jobs.events import EVENT
from ..jobs.plugin_run import FAULT
from .compiled import Gate
from .sources import STARTED, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..config.snapshot import Config
    from .compiled import CompiledPipeline, Node


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
    keys = [pipeline.jobs[each["step"]].then for each in begins]
    after = set(_keys(node for nodes in keys for node in nodes))
    then = tuple(each for each in steps_of(pipeline) if each["step"] in after)
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
    left, seen = list(nodes), set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Gate):
            left += [*node.inside, *node.otherwise]
        else:
            yield node.key
            left += node.then
