"""Pipelines and routes as a picture: a flowchart for Mermaid, which GitHub draws."""

from __future__ import annotations

import re

from ..config.flows import AllOf, AnyOf, Not
from .compiled import Job

#: All but what has no meaning to Mermaid in a quoted label.
_SPECIAL = re.compile(r"[^\w .,/()=+-]")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config.flows import Condition, Route
    from .compiled import CompiledPipeline, Node


def flowchart(pipelines: Iterable[CompiledPipeline], routes: Iterable[Route] = ()) -> str:
    """Return the text of a flowchart."""
    chart = _Chart()
    for pipeline in pipelines:
        chart.pipeline(pipeline)
    for route in routes:
        chart.route(route)
    return "\n".join(["flowchart TD", *chart.lines, ""])


def condition_text(condition: Condition) -> str:
    """Return a condition as one reads it."""
    if isinstance(condition, Not):
        return f"not ({condition_text(condition.of)})"
    if isinstance(condition, AllOf | AnyOf):
        word = " and " if isinstance(condition, AllOf) else " or "
        return word.join(f"({condition_text(each)})" for each in condition.of)
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
            if isinstance(node, Job):
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
    if isinstance(node, Job):
        return f"[{_quoted(f'{node.key}: {node.step.uses}')}]"
    return f"{{{_quoted(f'{node.key}: {condition_text(node.condition)}')}}}"


def _called(route: Route) -> str:
    return route.to if route.command == "handle" else f"{route.to}.{route.command}"


def _quoted(text: str) -> str:
    """Return text so that Mermaid shows it and nothing else."""
    plain = " ".join(text.split())
    return f'"{_SPECIAL.sub(lambda found: f"#{ord(found[0])};", plain)}"'
