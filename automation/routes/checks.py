"""Checks of pipelines as a whole: calls that lead somewhere and end, few enough hops, templates.

That plugins and commands are there is checked where the plugins are known.
"""

from __future__ import annotations

from ..config.faults import near
from ..config.flows import SWITCH_EVENTS
from .compiled import TooManySteps, calls_of, compiled
from .scope import fault_of_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..config.faults import Fault
    from ..config.flows import Pipeline, Step
    from ..config.snapshot import Config

#: How deep calls of pipelines may be nested.
MAX_CALLS = 20


def faults_of_pipelines(config: Config) -> Iterator[Fault]:
    """Yield all that is wrong with the pipelines of a configuration."""
    pipelines = {pipeline.name: pipeline for pipeline in config.pipelines}
    for pipeline in config.pipelines:
        yield from _faults_of_templates(pipeline.steps)
        calls = list(_faults_of_calls(pipeline, pipelines))
        yield from calls
        if calls:
            continue
        if is_whole(pipeline, pipelines):
            yield from _faults_of_size(pipeline, pipelines)
        elif len(list(_levels(pipeline, pipelines))) > MAX_CALLS:
            yield pipeline.place.fault(f"its calls are nested more than {MAX_CALLS} deep")


def is_whole(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> bool:
    """Tell whether all calls of a pipeline, at any depth, lead to others and come to an end."""
    levels = list(_levels(pipeline, pipelines))
    return len(levels) <= MAX_CALLS and all(level <= pipelines.keys() for level in levels)


def _levels(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> Iterator[set[str]]:
    """Yield the names that a pipeline calls, then those that these call, and so on."""
    level = [pipeline]
    for _ in range(MAX_CALLS + 1):
        names = {str(step.call) for each in level for step in calls_of(each.steps)}
        if not names:
            return
        yield names
        level = [pipelines[name] for name in names & pipelines.keys()]


def _faults_of_calls(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> Iterator[Fault]:
    for step in calls_of(pipeline.steps):
        called = str(step.call)
        if called not in pipelines:
            yield step.place.fault(f"there is no pipeline {called!r}{near(called, pipelines)}")
        elif way := _way_back(called, pipeline.name, pipelines):
            circle = " calls ".join([pipeline.name, *way])
            yield step.place.fault(f"the calls never end: {circle}; use an event instead")


def _way_back(start: str, end: str, pipelines: Mapping[str, Pipeline]) -> list[str] | None:
    """Return the pipelines from one to another, both included, each called by the one before.

    A way of more than MAX_CALLS is refused for its length, and not looked for.
    """
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        following = pipelines.get(way[-1]) if len(way) <= MAX_CALLS else None
        for step in calls_of(following.steps) if following else ():
            if step.call not in seen:
                seen.add(str(step.call))
                ways.append([*way, str(step.call)])
    return None


def _faults_of_size(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> Iterator[Fault]:
    try:
        found = compiled(pipeline, pipelines)
    except TooManySteps as error:
        yield pipeline.place.fault(str(error))
        return
    if pipeline.on in SWITCH_EVENTS.values() and found.asks_first:
        told = (
            f"it begins with {pipeline.on} and asks a condition before its first step,"
            " which would begin it again; let a step come first, or write the condition as the"
            " pipeline's own if"
        )
        yield pipeline.place.fault(told)
    hops, allowed = found.hops(), found.max_hops
    if allowed is not None and hops > allowed:
        told = f"{hops} steps follow one another, and {allowed} may; write max_depth: {hops}"
        yield pipeline.place.fault(told)


def _faults_of_templates(steps: tuple[Step, ...]) -> Iterator[Fault]:
    for step in steps:
        for key, template in step.with_.items():
            if fault := fault_of_template(template):
                yield step.place.fault(f"with.{key}: {fault}")
        yield from _faults_of_templates(step.steps)
        yield from _faults_of_templates(step.split)
