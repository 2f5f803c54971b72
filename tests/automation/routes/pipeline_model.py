"""A plain model of pipelines: steps are read as they stand, one after another, by recursion.

It knows no graph, no ids and no tables. Each job is known by what it comes from and by its step, so
that what is reached twice from one event is one job.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ackbus.automation.config.models import Condition, Pipeline, PipelineStep

Payload = dict[str, Any]
Place = tuple[Any, ...]

#: The events of a job of each plugin, by the number in its payload; None is a failure.
ANSWERS: dict[str, Callable[[int], list[Payload] | None]] = {
    "a": lambda n: [{"n": n + 1}],
    "b": lambda n: [{"n": n, "kept": True}],
    "c": lambda n: [],
    "d": lambda n: [{"n": n}, {"n": n + 1}],
    "f": lambda n: None if n % 3 == 2 else [{"n": n}],
    "g": lambda n: [{}],
}


def answer(plugin: str, payload: Payload) -> list[Payload] | None:
    number = payload.get("n")
    return ANSWERS[plugin](number if isinstance(number, int) else 0)


@dataclass(frozen=True)
class Given:
    """The input of a step: an event to follow, a payload, a context."""

    source: tuple[Any, ...]
    payload: Payload
    context: Payload


Rest = Callable[[Given], None]


@dataclass
class PipelineModel:
    """The jobs of a run, by what each comes from and its step: plugin, payload, context, faulty.

    And the answers of its conditions.
    """

    pipelines: dict[str, Pipeline]
    jobs: dict[tuple[Any, ...], tuple[str, Payload, Payload, bool]] = field(default_factory=dict)
    answers: dict[tuple[Any, ...], bool] = field(default_factory=dict)

    def run(self, name: str, payload: Payload) -> None:
        steps = self.pipelines[name].steps
        self._sequence(steps, (name,), Given((), payload, {}), lambda _: None)

    def _sequence(
        self, steps: tuple[PipelineStep, ...], at: tuple[Any, ...], given: Given, rest: Rest
    ) -> None:
        if not steps:
            return rest(given)
        here = (*at, len(steps))
        self._step(steps[0], here, given, lambda then: self._sequence(steps[1:], at, then, rest))
        return None

    def _step(self, step: PipelineStep, at: tuple[Any, ...], given: Given, rest: Rest) -> None:
        if step.condition is not None:
            self.answers[given.source, at] = _holds(step.condition, given)
        if step.condition is not None and not _holds(step.condition, given):
            rest(given)
        elif step.call is not None:
            self._sequence(self.pipelines[step.call].steps, (*at, step.call), given, rest)
        elif step.steps:
            self._sequence(step.steps, (*at, "steps"), given, rest)
        elif step.split:
            for number, branch in enumerate(step.split):
                self._step(branch, (*at, "split", number), given, rest)
        else:
            self._job(step, at, given, rest)

    def _job(self, step: PipelineStep, at: Place, given: Given, rest: Rest) -> None:
        id = (given.source, at)
        if id in self.jobs:
            return
        payload, context, is_faulty = dict(given.payload), dict(given.context), False
        needed = [*step.baggage.values(), *step.with_.values()]
        if needed and "n" not in given.payload:
            is_faulty = True
        for key in step.baggage:
            if not is_faulty and context.setdefault(key, given.payload["n"]) != given.payload["n"]:
                is_faulty = True
        if is_faulty:
            self.jobs[id] = (step.plugin, dict(given.payload), dict(given.context), True)
            return
        payload |= dict.fromkeys(step.with_, given.payload.get("n"))
        self.jobs[id] = (step.plugin, payload, context, False)
        events = answer(step.plugin, payload)
        if events is None:
            return
        for number, event in enumerate(events):
            rest(Given((id, number), event, context))
        if not events:
            rest(Given((id,), {"result": "done"}, context))


def _holds(condition: Any, given: Given) -> bool:
    """The conditions that are drawn: of a number that is there and at least so large."""
    assert isinstance(condition, Condition)
    number = given.payload.get("n")
    return (
        isinstance(number, int) and isinstance(condition.value, int) and number >= condition.value
    )
