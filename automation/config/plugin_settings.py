"""The checks of plugins, schedules, routes and pipelines that go beyond a single setting."""

from __future__ import annotations

import re

import orjson

from ...schema.errors import InvalidInput
from .durations import own_zone
from .faults import near
from .models import Pipeline, PipelineStep, PluginConfig, RetryConfig, Route, ScheduleEntry
from .reading import hash_of
from .values import SWITCH, Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .models import Condition
    from .validation import TreePath, Validation

#: The kinds of times, of which a schedule has one, with their keys.
_KINDS = {"every_s": "every", "cron": "cron", "at_ms": "at", "after_s": "after"}

#: The fields that decide the times of a schedule; the rest decides what is done at them.
_TIMING = ("every_s", "cron", "at_ms", "after_s", "jitter_s", "timezone", "preferred_window")


def plugin_settings(validation: Validation, max_workers: int) -> dict[str, PluginConfig]:
    """Return the settings of all plugins that have no fault.

    Args:
        validation: a run over the configuration, which takes the faults.
        max_workers: the most that a plugin's `parallelism` may be.
    """
    settings = {}
    for name in validation.map("plugins"):
        if not _is_name(name):
            validation.refuse(f"{name!r}: write letters, digits, _ and -", "plugins", name)
        elif (plugin := _plugin(validation, name, max_workers)) is not None:
            settings[name] = plugin
    return settings


def _is_name(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalnum() and name.isascii() and len(name) <= 128


def _plugin(validation: Validation, name: str, max_workers: int) -> PluginConfig | None:
    path = ("plugins", name)
    plugin = validation.model(PluginConfig, *path)
    schedules = _schedules(validation, name)
    if plugin is None:
        return None
    if plugin.parallelism is not None and plugin.parallelism > max_workers:
        message = f"write at most {max_workers}, which is service.max_workers"
        validation.refuse(message, *path, "parallelism")
    retry = plugin.retry
    if "max_attempts" in plugin.model_fields_set:
        if "retry" in plugin.model_fields_set:
            validation.refuse("it stands in retry, too", *path, "max_attempts")
        retry = RetryConfig(max_attempts=plugin.max_attempts)
    return plugin.model_copy(
        update={
            "name": name,
            "uses": plugin.uses or name,
            "schedules": schedules,
            "retry": retry,
        }
    )


def _schedules(validation: Validation, plugin: str) -> tuple[ScheduleEntry, ...]:
    entries: list[ScheduleEntry] = []
    for number in range(len(validation.list("plugins", plugin, "schedules"))):
        path = ("plugins", plugin, "schedules", number)
        entry = validation.model(ScheduleEntry, *path)
        if entry is None:
            continue
        if any(other.id == entry.id for other in entries):
            message = f"the id {entry.id!r} is taken; give each schedule of a plugin its own"
            validation.refuse(message, *path)
        _check_kind(validation, entry, path)
        if entry.command == "handle":
            message = "'handle' answers events and has no times; schedule poll, or write a route"
            validation.refuse(message, *path, "command")
        if entry.preferred_window is not None:
            message = "times outside of it are moved to its next start, here; Ductile ignores it"
            validation.warn(message, *path, "preferred_window")
        _check_own_zone(validation, entry, path)
        update = {"plugin": plugin, "hash": _hash(entry)}
        entries.append(entry.model_copy(update=update))
    return tuple(entries)


def _hash(entry: ScheduleEntry) -> str:
    times = entry.model_dump(include=set(_TIMING))
    return hash_of(orjson.dumps([times[key] for key in _TIMING]))[:16]


def _check_own_zone(validation: Validation, entry: ScheduleEntry, path: TreePath) -> None:
    """Refuse a schedule in the machine's own time zone if that can't be read."""
    goes_by_clock = entry.cron or entry.only_between or entry.not_on or entry.preferred_window
    if goes_by_clock and entry.timezone is None:
        try:
            own_zone()
        except InvalidInput as error:
            validation.refuse(str(error), *path)


def _check_kind(validation: Validation, entry: ScheduleEntry, path: TreePath) -> None:
    kinds = [key for name, key in _KINDS.items() if getattr(entry, name) is not None]
    if not kinds:
        validation.refuse("it has no times; write one of every, cron, at and after", *path)
    elif len(kinds) > 1:
        message = f"{' and '.join(kinds)} are two kinds of times; write one of them"
        validation.refuse(message, *path, kinds[1])
    if entry.jitter_s and kinds != ["every"]:
        validation.warn("jitter is for every; it has no effect here", *path, "jitter")
    if entry.every_s is not None and entry.jitter_s >= entry.every_s:
        validation.refuse("the jitter must be shorter than the interval", *path, "jitter")


# Routes and pipelines.

_NUMERIC = ("gt", "gte", "lt", "lte")
_TEXTUAL = ("contains", "startswith", "endswith", "regex")
#: The comparisons that a condition has.
OPERATORS = ("exists", "eq", "neq", "in", *_NUMERIC, *_TEXTUAL)

#: How deeply conditions, and steps, may be nested.
MAX_DEPTH = 10

#: The source of a claim of baggage.
_SOURCE = re.compile(r"(payload|context)(\.[^.\s{}]+)*")
_DURABLE = re.compile(r"[^.\s{}]+(\.[^.\s{}]+)*")


def routes(validation: Validation) -> tuple[Route, ...]:
    """Return the routes that have no fault, in their order."""
    routes_by_key: dict[tuple[str, str, str, str], Route] = {}
    for number in range(len(validation.list("routes"))):
        path = ("routes", number)
        if (route := validation.model(Route, *path)) is None:
            continue
        plugin, _, command = route.to.partition(".")
        if command and "command" in route.model_fields_set:
            validation.refuse(f"{route.to!r} names a command already", *path, "command")
        route = route.model_copy(update={"to": plugin, "command": command or route.command})
        if route.broadcast and route.source == SWITCH:
            validation.refuse("events of conditions can't be broadcast", *path, "broadcast")
        key = (route.source, route.event_type, route.to, route.command)
        if first := routes_by_key.get(key):
            at = f"{first.place.file}:{first.place.line}"
            validation.warn(f"this route stands already, at {at}, and has no effect", *path)
        else:
            routes_by_key[key] = route
    return tuple(routes_by_key.values())


def pipelines(validation: Validation) -> tuple[Pipeline, ...]:
    """Return the pipelines that have no fault, in their order."""
    pipelines_by_name: dict[str, Pipeline] = {}
    for number in range(len(validation.list("pipelines"))):
        path = ("pipelines", number)
        if (pipeline := validation.model(Pipeline, *path)) is None:
            continue
        if first := pipelines_by_name.get(pipeline.name):
            at = f"{first.place.file}:{first.place.line}"
            validation.refuse(f"the name {pipeline.name!r} is taken, at {at}", *path, "name")
        if (pipeline.on is None) == (pipeline.on_hook is None):
            validation.refuse("write on: EVENT, or on-hook: job.completed", *path)
        _check_condition(validation, pipeline.condition, _ROOTS_OF_EVENTS, (*path, "if"))
        steps = _Steps(validation).steps(pipeline.steps, (*path, "steps"))
        pipelines_by_name[pipeline.name] = pipeline.model_copy(update={"steps": steps})
    return tuple(pipelines_by_name.values())


class _Steps:
    """Checks the steps of one pipeline, whose ids differ."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._ids: set[str] = set()

    def steps(self, steps: tuple[PipelineStep, ...], path: TreePath) -> tuple[PipelineStep, ...]:
        return tuple(self._step(step, (*path, number)) for number, step in enumerate(steps))

    def _step(self, step: PipelineStep, path: TreePath) -> PipelineStep:
        refuse = self._validation.refuse
        kinds = [kind for kind in ("uses", "call", "steps", "split") if getattr(step, kind)]
        if len(kinds) != 1:
            has = " and ".join(kinds) or "nothing to do"
            refuse(f"it has {has}; write one of uses, call, steps and split", *path)
        if step.id is not None:
            if step.id in self._ids:
                refuse(f"the id {step.id!r} is taken in this pipeline", *path, "id")
            self._ids.add(step.id)
        for key, setting in (("with", step.with_), ("baggage", step.baggage)):
            if setting and step.uses is None:
                refuse(f"{key!r} belongs to a step that uses a plugin", *path, key)
        if len(path) > 2 * MAX_DEPTH:
            refuse(f"steps are nested more than {MAX_DEPTH} deep", *path)
        _check_condition(self._validation, step.condition, _ALL_ROOTS, (*path, "if"))
        claims, source, namespace = self._baggage(step.baggage, (*path, "baggage"))
        return step.model_copy(
            update={
                "steps": self.steps(step.steps, (*path, "steps")),
                "split": self.steps(step.split, (*path, "split")),
                "baggage": Frozen(claims),
                "baggage_from": source,
                "namespace": namespace,
                "place": self._validation.place(*path),
            }
        )

    def _baggage(
        self, entries: Mapping[str, str], path: TreePath
    ) -> tuple[dict[str, str], str | None, str | None]:
        """Return the claims of a step, and the object that it claims whole, with its namespace."""
        claims = dict(entries)
        source, namespace = claims.pop("from", None), claims.pop("namespace", None)
        if (source is None) != (namespace is None):
            message = "claim an object by both: from: payload.PATH and namespace: NAME"
            self._validation.refuse(message, *path)
        for key, value in [*claims.items(), *([("from", source)] if source else [])]:
            if not _DURABLE.fullmatch(key):
                self._validation.refuse("write a dotted path, such as web.url", *path, key)
            if not _SOURCE.fullmatch(value):
                message = f"{value!r} is no source; write payload.PATH or context.PATH"
                self._validation.refuse(message, *path, key)
        return claims, source, namespace


#: The roots of paths in the conditions of pipelines, and of steps.
_ROOTS_OF_EVENTS = ("payload", "context")
_ALL_ROOTS = (*_ROOTS_OF_EVENTS, "config")


def _check_condition(
    validation: Validation,
    condition: Condition | None,
    roots: tuple[str, ...],
    path: TreePath,
    depth: int = 0,
) -> None:
    if condition is None:
        return
    forms = [key for key in ("path", "all", "any", "not_") if getattr(condition, key) is not None]
    if len(forms) != 1 or (forms != ["path"] and condition.op is not None):
        message = "write one of: path with op and value, all: [...], any: [...], not: {...}"
        validation.refuse(message, *path)
    elif depth > MAX_DEPTH:
        validation.refuse(f"conditions are nested more than {MAX_DEPTH} deep", *path)
    elif condition.path is not None:
        _check_comparison(validation, condition, roots, path)
    elif condition.not_ is not None:
        _check_condition(validation, condition.not_, roots, (*path, "not"), depth + 1)
    else:
        parts = condition.all or condition.any or ()
        for number, part in enumerate(parts):
            _check_condition(validation, part, roots, (*path, forms[0], number), depth + 1)
        if not parts:
            validation.refuse("write at least one condition", *path, forms[0])


def _check_comparison(
    validation: Validation, condition: Condition, roots: tuple[str, ...], path: TreePath
) -> None:
    op, value = condition.op or "", condition.value
    if (condition.path or "").split(".")[0] not in roots:
        message = f"{condition.path!r} begins nowhere; write a path of {', '.join(roots)}"
        validation.refuse(message, *path, "path")
    if op not in OPERATORS:
        message = f"{op!r} is no comparison{near(op, OPERATORS)}; write {', '.join(OPERATORS)}"
        validation.refuse(message, *path, "op")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in _NUMERIC and not is_number:
        validation.refuse(f"{op!r} compares numbers; write one", *path, "value")
    elif op in _TEXTUAL and not isinstance(value, str):
        validation.refuse(f"{op!r} compares text; write it in quotes", *path, "value")
    elif op == "in" and not isinstance(value, tuple):
        validation.refuse("'in' looks in a list; write value: [...]", *path, "value")
    elif op == "regex":
        try:
            re.compile(str(value))
        except re.error as error:
            validation.refuse(f"this is no regular expression: {error}", *path, "value")
