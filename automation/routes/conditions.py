"""Pipelines as they run: jobs and gates in a graph, conditions, and checks of the whole.

Types are strict: a comparison with a value of another type, or of one that is not there, does not
hold. For `eq`, `neq` and `in`, a value that is not there is null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import orjson

from ...schema.errors import shown
from ...schema.message.canonical_json import encode
from ..config.values import SWITCH_EVENTS, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..config.models import Condition, Config, Pipeline, PipelineStep
    from ..config.values import Fault

    #: The roots of paths, each with its value.
    Scope = Mapping[str, object]

    Context = Mapping[str, object]

# The values that steps of pipelines may name by dotted paths: payload, context and config.

#: How many existing names an error lists at most, and how many are compared, which is slow.
_NAMED, _COMPARED = 10, 200

_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number"}

#: The result of a path that leads nowhere; None is the JSON value null.
ABSENT = object()

_REFERENCE = re.compile(r"\{([^{}]*)\}")
_PATH = re.compile(r"(payload|context)(\.[^.\s{}]+)*")


class FlowFault(Exception):
    """A step's input can't be built as its pipeline says; its job fails with this text."""


def look_up(scope: Scope, path: str) -> object:
    """Return the value at a dotted path, or ABSENT. A number is a place in a list, from 0."""
    value: object = scope
    for word in path.split("."):
        if isinstance(value, dict) and word in value:
            value = value[word]
        elif isinstance(value, list | tuple) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        else:
            return ABSENT
    return value


def required(scope: Scope, path: str) -> object:
    """Return the value at a dotted path.

    Raises:
        FlowFault: it leads nowhere; the text names what is there, and no value of it.
    """
    value = look_up(scope, path)
    if value is ABSENT:
        raise FlowFault(f"{path} is not there; {_what_is_there(scope, path)}")
    return value


def _what_is_there(scope: Scope, path: str) -> str:
    """Describe the value at the longest existing prefix of a path."""
    words = path.split(".")
    while words and look_up(scope, ".".join(words)) is ABSENT:
        words.pop()
    prefix = ".".join(words)
    value = look_up(scope, prefix) if prefix else scope
    if isinstance(value, dict) and value:
        names = sorted(f"{prefix}.{key}" for key in value)
        likely = [name for name in names[:_COMPARED] if len(name) <= 2 * len(path)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"there is {', '.join(map(shown, names[:_NAMED]))}{more}{near(path, likely)}"
    if isinstance(value, list | tuple) and value:
        return f"{prefix} is a list of {len(value)}, from {prefix}.0 on"
    return f"{prefix} is {'empty' if value in ({}, [], ()) else _KINDS.get(type(value), 'null')}"


def fault_of_template(template: str) -> str | None:
    """Return what is wrong with the form of a template, or None."""
    for path in _REFERENCE.findall(template):
        if not _PATH.fullmatch(path):
            return f"{{{path}}} names nothing; write {{payload.PATH}} or {{context.PATH}}"
    if re.search(r"[{}]", _REFERENCE.sub("", template)):
        return f"a brace of {template!r} has no partner; write {{payload.PATH}}"
    return None


def filled(template: str, scope: Scope) -> object:
    """Return a template with its references filled in.

    One that is a reference and nothing else keeps the type of the value; all others are text.

    Raises:
        FlowFault: a reference leads nowhere, or the template has no proper form.
    """
    if fault := fault_of_template(template):
        raise FlowFault(fault)
    if whole := _REFERENCE.fullmatch(template):
        return required(scope, whole[1])
    return _REFERENCE.sub(lambda match: _text(required(scope, match[1])), template)


def is_same(value: object, other: object) -> bool:
    """Tell whether two JSON values are the same, in their types too: 1 is not true, nor 1.0."""
    return encode(value) == encode(other)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "gt": lambda value, than: value > than,
    "gte": lambda value, than: value >= than,
    "lt": lambda value, than: value < than,
    "lte": lambda value, than: value <= than,
}

_TEXTUAL: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part.casefold() in value.casefold(),
    "startswith": lambda value, part: value.casefold().startswith(part.casefold()),
    "endswith": lambda value, part: value.casefold().endswith(part.casefold()),
    "regex": lambda value, pattern: re.fullmatch(pattern, value) is not None,
}


def holds(condition: Condition | None, scope: Scope) -> bool:
    """Tell whether a condition holds; None always does."""
    if condition is None:
        return True
    if condition.all is not None:
        return all(holds(part, scope) for part in condition.all)
    if condition.any is not None:
        return any(holds(part, scope) for part in condition.any)
    if condition.not_ is not None:
        return not holds(condition.not_, scope)
    return _compare(condition, look_up(scope, condition.path or ""))


def _compare(comparison: Condition, value: object) -> bool:
    op, expected = comparison.op or "", comparison.value
    if op == "exists":
        return value is not ABSENT
    value = None if value is ABSENT else value
    if op == "eq":
        return _is_equal(value, expected)
    if op == "neq":
        return not _is_equal(value, expected)
    if op == "in":
        return isinstance(expected, list | tuple) and any(
            _is_equal(value, choice) for choice in expected
        )
    if op in _NUMERIC:
        return _is_number(value) and _is_number(expected) and _NUMERIC[op](value, expected)  # type: ignore[arg-type]
    return isinstance(value, str) and isinstance(expected, str) and _TEXTUAL[op](value, expected)


def _is_equal(value: object, expected: object) -> bool:
    if _is_number(value) and _is_number(expected):
        return value == expected
    return is_same(value, expected)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# The payload of a step, by `with`, and the context of its run, by `baggage`.

#: The largest context of a run, in bytes of JSON: 1 MB.
MAX_CONTEXT_BYTES = 1_000_000


def payload_of(step: PipelineStep, scope: Scope) -> object:
    """Return the payload of a step's job: the one of the scope, with the keys of `with`.

    Every template sees the scope as it was; none sees what another one has set.

    Raises:
        FlowFault: a template leads nowhere, or the payload has no keys.
    """
    payload = scope["payload"]
    if not step.with_:
        return payload
    if payload is not None and not isinstance(payload, dict):
        raise FlowFault("with: the payload is no object, so it has no keys to set")
    return {**(payload or {}), **_filled(step.with_, scope)}


def context_of(step: PipelineStep, scope: Scope) -> Context:
    """Return the context of a step: the inherited one, and what it claims.

    Inherited values never change; to claim the same value again is allowed.

    Raises:
        FlowFault: a source is not there, a claim would change what is inherited, or the context
            becomes too large.
    """
    inherited = scope["context"]
    assert isinstance(inherited, dict)
    context: dict[str, object] = dict(inherited)
    for path, value in _claims(step, scope).items():
        context = _accreted(context, _nested(path, value), path)
    if len(encode(context)) > MAX_CONTEXT_BYTES:
        raise FlowFault(f"baggage: the context is larger than {MAX_CONTEXT_BYTES} bytes")
    return context


def _filled(templates: Mapping[str, str], scope: Scope) -> dict[str, object]:
    values = {}
    for key, template in templates.items():
        try:
            values[key] = filled(template, scope)
        except FlowFault as fault:
            raise FlowFault(f"with.{key}: {fault}") from None
    return values


def _claims(step: PipelineStep, scope: Scope) -> dict[str, object]:
    """Return the claims of a step, by their durable paths."""
    sources = dict(step.baggage)
    if step.baggage_from is not None and step.namespace is not None:
        sources[step.namespace] = step.baggage_from
    claims = {}
    for path, source in sources.items():
        try:
            claims[path] = required(scope, source)
        except FlowFault as fault:
            raise FlowFault(f"baggage.{path}: {fault}") from None
        if path == step.namespace and not isinstance(claims[path], dict):
            raise FlowFault(f"baggage.{path}: {source} is no object")
    return claims


def _nested(path: str, value: object) -> dict[str, object]:
    for word in reversed(path.split(".")):
        value = {word: value}
    assert isinstance(value, dict)
    return value


def _accreted(
    inherited: Mapping[str, object], claimed: Mapping[str, object], path: str
) -> dict[str, object]:
    """Return an object with what is claimed beside what is inherited, at each depth."""
    merged = dict(inherited)
    for key, value in claimed.items():
        there = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(there, dict) and isinstance(value, dict):
            merged[key] = _accreted(there, value, path)
        elif not is_same(there, value):
            raise FlowFault(
                f"baggage.{path}: {key!r} is in the context with another value, which never"
                " changes; claim it under another name"
            )
    return merged


# Pipelines as they run: jobs and gates in a graph, calls written out.

#: How many jobs may follow one another in a pipeline, unless its `max_depth` says otherwise.
MAX_HOPS = 20

#: How many steps a pipeline has at most, with the steps of all that it calls.
MAX_STEPS = 1_000


class TooManySteps(ValueError):
    """A pipeline becomes too large when its calls are written out."""


@dataclass(frozen=True, slots=True)
class JobNode:
    """A step that uses a plugin.

    Attributes:
        key: the name of the step in the run: its id, else `#` and its place; those of a pipeline
            that is called stand behind the name of the step that calls it.
        step: as its author wrote it.
        then: what follows when it has succeeded.
    """

    key: str
    step: PipelineStep
    then: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition before a step.

    Attributes:
        key: the name of the step.
        condition: what is asked.
        plugin: the plugin whose config the condition may ask about; "" is none.
        inside: what runs where it holds.
        otherwise: what runs where it doesn't: what follows the step.
    """

    key: str
    condition: Condition
    plugin: str
    inside: tuple[Node, ...]
    otherwise: tuple[Node, ...]


Node = JobNode | Gate


@dataclass(frozen=True, slots=True)
class CompiledPipeline:
    """A pipeline whose steps are known by their keys.

    Attributes:
        pipeline: as its author wrote it.
        entries: what begins.
        jobs: all steps that use a plugin, by key, each after those that lead to it.
    """

    pipeline: Pipeline
    entries: tuple[Node, ...]
    jobs: Mapping[str, JobNode] = field(default_factory=dict)

    @property
    def max_hops(self) -> int | None:
        """The limit of jobs that follow one another; None is none."""
        max_depth = self.pipeline.max_depth
        return MAX_HOPS if max_depth is None else max_depth or None

    @property
    def ends(self) -> tuple[str, ...]:
        """The keys of the steps that nothing follows, in order."""
        return tuple(key for key, job in self.jobs.items() if not job.then)

    @property
    def asks_first(self) -> bool:
        """Whether it asks a condition before any step."""
        return any(isinstance(node, Gate) for node in self.entries)

    def hops(self) -> int:
        """Return how many jobs follow one another on the longest way."""
        return _LongestPath().of_all(self.entries)


def compiled(pipeline: Pipeline, all_pipelines: Mapping[str, Pipeline]) -> CompiledPipeline:
    """Compile a pipeline. The pipelines that it calls must exist, and the calls make no cycle.

    Raises:
        TooManySteps: it has more than MAX_STEPS.
    """
    compiler = _Compiler(all_pipelines)
    entries = compiler.sequence(pipeline.steps, (), "")
    return CompiledPipeline(pipeline, entries, dict(reversed(compiler.jobs.items())))


class _Compiler:
    """Compiles from the last step to the first, so that each knows what follows it."""

    def __init__(self, all_pipelines: Mapping[str, Pipeline]) -> None:
        self._all = all_pipelines
        self.jobs: dict[str, JobNode] = {}

    def sequence(
        self, steps: tuple[PipelineStep, ...], then: tuple[Node, ...], above: str
    ) -> tuple[Node, ...]:
        for number in range(len(steps), 0, -1):
            then = self._step(steps[number - 1], then, f"{above}#{number}", above)
        return then

    def _step(
        self, step: PipelineStep, then: tuple[Node, ...], place: str, above: str
    ) -> tuple[Node, ...]:
        key = place if step.id is None else f"{above[: above.rfind('/') + 1]}{step.id}"
        inside = self._inside(step, then, key, place)
        if step.condition is None:
            return inside
        return (Gate(key, step.condition, step.plugin, inside, then),)

    def _inside(
        self, step: PipelineStep, then: tuple[Node, ...], key: str, place: str
    ) -> tuple[Node, ...]:
        if step.call is not None:
            return self.sequence(self._all[step.call].steps, then, f"{key}/")
        if step.steps:
            return self.sequence(step.steps, then, place)
        if step.split:
            branches = reversed(list(enumerate(step.split, 1)))
            entries = [
                self._step(inner_step, then, f"{place}#{n}", place) for n, inner_step in branches
            ]
            return tuple(node for branch in reversed(entries) for node in branch)
        job = self.jobs[key] = JobNode(key, step, then)
        if len(self.jobs) > MAX_STEPS:
            raise TooManySteps(f"it has more than {MAX_STEPS} steps, with those that it calls")
        return (job,)


class _LongestPath:
    """Finds the longest way, and looks at each step once."""

    def __init__(self) -> None:
        self._hops: dict[int, int] = {}

    def of_all(self, nodes: tuple[Node, ...]) -> int:
        return max(map(self._of, nodes), default=0)

    def _of(self, node: Node) -> int:
        if id(node) not in self._hops:
            if isinstance(node, JobNode):
                hops = 1 + self.of_all(node.then)
            else:
                hops = max(self.of_all(node.inside), self.of_all(node.otherwise))
            self._hops[id(node)] = hops
        return self._hops[id(node)]


def calls_of(steps: tuple[PipelineStep, ...]) -> Iterator[PipelineStep]:
    """Yield the steps that call a pipeline, at any depth."""
    for step in steps:
        if step.call is not None:
            yield step
        yield from calls_of(step.steps)
        yield from calls_of(step.split)


# Checks of pipelines as a whole: calls that lead somewhere and end, few enough hops, templates.
#
# That plugins and commands are there is checked where the plugins are known.

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
    """Tell whether all calls of a pipeline, at any depth, lead to pipelines and make no cycle."""
    levels = list(_levels(pipeline, pipelines))
    return len(levels) <= MAX_CALLS and all(level <= pipelines.keys() for level in levels)


def _levels(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> Iterator[set[str]]:
    """Yield the names that a pipeline calls, then those that these call, and so on."""
    level = [pipeline]
    for _ in range(MAX_CALLS + 1):
        names = {str(step.call) for caller in level for step in calls_of(caller.steps)}
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
    ways, visited = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        following = pipelines.get(way[-1]) if len(way) <= MAX_CALLS else None
        for step in calls_of(following.steps) if following else ():
            if step.call not in visited:
                visited.add(str(step.call))
                ways.append([*way, str(step.call)])
    return None


def _faults_of_size(pipeline: Pipeline, pipelines: Mapping[str, Pipeline]) -> Iterator[Fault]:
    try:
        compiled_pipeline = compiled(pipeline, pipelines)
    except TooManySteps as error:
        yield pipeline.place.fault(str(error))
        return
    if pipeline.on in SWITCH_EVENTS.values() and compiled_pipeline.asks_first:
        message = (
            f"it begins with {pipeline.on} and asks a condition before its first step,"
            " which would begin it again; let a step come first, or write the condition as the"
            " pipeline's own if"
        )
        yield pipeline.place.fault(message)
    hops, allowed = compiled_pipeline.hops(), compiled_pipeline.max_hops
    if allowed is not None and hops > allowed:
        message = f"{hops} steps follow one another, and {allowed} may; write max_depth: {hops}"
        yield pipeline.place.fault(message)


def _faults_of_templates(steps: tuple[PipelineStep, ...]) -> Iterator[Fault]:
    for step in steps:
        for key, template in step.with_.items():
            if fault := fault_of_template(template):
                yield step.place.fault(f"with.{key}: {fault}")
        yield from _faults_of_templates(step.steps)
        yield from _faults_of_templates(step.split)
