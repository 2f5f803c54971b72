"""Pipelines as they run: jobs and gates in a graph, calls written out."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..config.flows import Condition, Pipeline, Step

#: How many jobs may follow one another in a pipeline, unless its `max_depth` says otherwise.
MAX_HOPS = 20

#: How many steps a pipeline has at most, with the steps of all that it calls.
MAX_STEPS = 1_000


class TooManySteps(ValueError):
    """A pipeline becomes too large when its calls are written out."""


@dataclass(frozen=True, slots=True)
class Job:
    """A step that uses a plugin.

    Attributes:
        key: the name of the step in the run: its id, else `#` and its place; those of a pipeline
            that is called stand behind the name of the step that calls it.
        step: what its author says.
        then: what follows when it has succeeded.
    """

    key: str
    step: Step
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


Node = Job | Gate


@dataclass(frozen=True, slots=True)
class CompiledPipeline:
    """A pipeline whose steps are known by their keys.

    Attributes:
        pipeline: what its author says.
        entries: what begins.
        jobs: all steps that use a plugin, by key, each after those that lead to it.
    """

    pipeline: Pipeline
    entries: tuple[Node, ...]
    jobs: Mapping[str, Job] = field(default_factory=dict)

    @property
    def max_hops(self) -> int | None:
        """The limit of jobs that follow one another; None is none."""
        given = self.pipeline.max_depth
        return MAX_HOPS if given is None else given or None

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
        return _Longest().of_all(self.entries)


def compiled(pipeline: Pipeline, all_pipelines: Mapping[str, Pipeline]) -> CompiledPipeline:
    """Return a pipeline as it runs. Its calls make no cycle, and lead to pipelines that are there.

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
        self.jobs: dict[str, Job] = {}

    def sequence(
        self, steps: tuple[Step, ...], then: tuple[Node, ...], above: str
    ) -> tuple[Node, ...]:
        for number in range(len(steps), 0, -1):
            then = self._step(steps[number - 1], then, f"{above}#{number}", above)
        return then

    def _step(self, step: Step, then: tuple[Node, ...], place: str, above: str) -> tuple[Node, ...]:
        key = place if step.id is None else f"{above[: above.rfind('/') + 1]}{step.id}"
        inside = self._inside(step, then, key, place)
        if step.condition is None:
            return inside
        return (Gate(key, step.condition, step.plugin, inside, then),)

    def _inside(self, step: Step, then: tuple[Node, ...], key: str, place: str) -> tuple[Node, ...]:
        if step.call is not None:
            return self.sequence(self._all[step.call].steps, then, f"{key}/")
        if step.steps:
            return self.sequence(step.steps, then, place)
        if step.split:
            branches = reversed(list(enumerate(step.split, 1)))
            found = [self._step(each, then, f"{place}#{n}", place) for n, each in branches]
            return tuple(node for branch in reversed(found) for node in branch)
        job = self.jobs[key] = Job(key, step, then)
        if len(self.jobs) > MAX_STEPS:
            raise TooManySteps(f"it has more than {MAX_STEPS} steps, with those that it calls")
        return (job,)


class _Longest:
    """Finds the longest way, and looks at each step once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of_all(self, nodes: tuple[Node, ...]) -> int:
        return max(map(self._of, nodes), default=0)

    def _of(self, node: Node) -> int:
        if id(node) not in self._known:
            if isinstance(node, Job):
                found = 1 + self.of_all(node.then)
            else:
                found = max(self.of_all(node.inside), self.of_all(node.otherwise))
            self._known[id(node)] = found
        return self._known[id(node)]


def calls_of(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps that call a pipeline, at any depth."""
    for step in steps:
        if step.call is not None:
            yield step
        yield from calls_of(step.steps)
        yield from calls_of(step.split)
