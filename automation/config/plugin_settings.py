"""Settings of plugins, schedules, routes and pipelines, as records."""

from __future__ import annotations

import re

import orjson

from ...schema.errors import InvalidInput
from .durations import own_zone
from .faults import near
from .flows import SWITCH, AllOf, AnyOf, Frozen, Not, Pipeline, PipelineStep, Predicate, Route
from .reading import hash_of
from .shapes import PipelineShape, PluginShape, RouteShape, ScheduleShape
from .snapshot import BreakerConfig, LimitsConfig, PluginConfig, RetryConfig, ScheduleEntry, Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .flows import Condition
    from .shapes import ConditionShape, PreferredWindowShape, StepShape, TreePath, Validation

#: The kinds of times, of which a schedule has one.
_KINDS = ("every", "cron", "at", "after")

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


def frozen(value: Any) -> Any:
    """Return a JSON value that does not change."""
    if isinstance(value, dict):
        return Frozen({key: frozen(member) for key, member in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def _plugin(validation: Validation, name: str, max_workers: int) -> PluginConfig | None:
    path = ("plugins", name)
    shape = validation.shaped(PluginShape, *path)
    schedules = _schedules(validation, name)
    if shape is None:
        return None
    if shape.parallelism is not None and shape.parallelism > max_workers:
        message = f"write at most {max_workers}, which is service.max_workers"
        validation.refuse(message, *path, "parallelism")
    limits = shape.limits
    return PluginConfig(
        name=name,
        uses=shape.uses or name,
        enabled=shape.enabled,
        config=frozen(shape.config),
        schedules=schedules,
        retry=_retry(validation, shape, name),
        timeouts=Frozen(shape.timeouts),
        timeout=shape.timeout,
        circuit_breaker=BreakerConfig(
            threshold=shape.circuit_breaker.threshold,
            reset_after_s=shape.circuit_breaker.reset_after,
        ),
        max_outstanding_polls=shape.max_outstanding_polls,
        parallelism=shape.parallelism,
        notify_on_complete=shape.notify_on_complete,
        limits=LimitsConfig(
            memory_bytes=limits.memory,
            cpu_s=limits.cpu,
            processes=limits.processes,
            open_files=limits.open_files,
        ),
        on_failure=shape.on_failure,
        place=validation.place(*path),
    )


def _retry(validation: Validation, shape: PluginShape, name: str) -> RetryConfig:
    """Return the retry settings of a plugin; `max_attempts` beside `retry` is an old form."""
    if shape.retry is not None:
        if shape.max_attempts is not None:
            validation.refuse("it stands in retry, too", "plugins", name, "max_attempts")
        return RetryConfig(
            max_attempts=shape.retry.max_attempts, backoff_base_s=shape.retry.backoff_base
        )
    return RetryConfig(max_attempts=shape.max_attempts or RetryConfig().max_attempts)


def _schedules(validation: Validation, plugin: str) -> tuple[ScheduleEntry, ...]:
    entries: list[ScheduleEntry] = []
    for number in range(len(validation.list("plugins", plugin, "schedules"))):
        path = ("plugins", plugin, "schedules", number)
        shape = validation.shaped(ScheduleShape, *path)
        if shape is None:
            continue
        if any(entry.id == shape.id for entry in entries):
            message = f"the id {shape.id!r} is taken; give each schedule of a plugin its own"
            validation.refuse(message, *path)
        _check_kind(validation, shape, path)
        if shape.command == "handle":
            message = "'handle' answers events and has no times; schedule poll, or write a route"
            validation.refuse(message, *path, "command")
        if shape.preferred_window is not None:
            message = "times outside of it are moved to its next start, here; Ductile ignores it"
            validation.warn(message, *path, "preferred_window")
        entries.append(_entry(validation, plugin, shape, path))
        _check_own_zone(validation, entries[-1], path)
    return tuple(entries)


def _check_own_zone(
    validation: Validation, entry: ScheduleEntry, path: tuple[str | int, ...]
) -> None:
    """Refuse a schedule in the machine's own time zone if that can't be read."""
    goes_by_clock = entry.cron or entry.only_between or entry.not_on or entry.preferred_window
    if goes_by_clock and entry.timezone is None:
        try:
            own_zone()
        except InvalidInput as error:
            validation.refuse(str(error), *path)


def _check_kind(validation: Validation, shape: ScheduleShape, path: tuple[str | int, ...]) -> None:
    kinds = [kind for kind in _KINDS if getattr(shape, kind) is not None]
    if not kinds:
        validation.refuse("it has no times; write one of every, cron, at and after", *path)
    elif len(kinds) > 1:
        message = f"{' and '.join(kinds)} are two kinds of times; write one of them"
        validation.refuse(message, *path, kinds[1])
    if shape.jitter and kinds != ["every"]:
        validation.warn("jitter is for every; it has no effect here", *path, "jitter")
    if shape.every is not None and shape.jitter >= shape.every:
        validation.refuse("the jitter must be shorter than the interval", *path, "jitter")


def _entry(
    validation: Validation, plugin: str, shape: ScheduleShape, path: tuple[str | int, ...]
) -> ScheduleEntry:
    times: dict[str, Any] = {
        "every_s": shape.every,
        "cron": shape.cron,
        "at_ms": shape.at,
        "after_s": shape.after,
        "jitter_s": shape.jitter,
        "timezone": shape.timezone,
        "preferred_window": _window(shape.preferred_window),
    }
    return ScheduleEntry(
        plugin=plugin,
        id=shape.id,
        command=shape.command,
        payload=frozen(shape.payload),
        only_between=shape.only_between,
        not_on=frozenset(shape.not_on),
        catch_up=shape.catch_up,
        catch_up_max=shape.catch_up_max,
        catch_up_age_s=shape.catch_up_age,
        if_running=shape.if_running,
        hash=hash_of(orjson.dumps([times[key] for key in _TIMING]))[:16],
        place=validation.place(*path),
        **times,
    )


def _window(shape: PreferredWindowShape | None) -> Window | None:
    return shape.window() if shape else None


# Routes and pipelines, as records.

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
        if (shape := validation.shaped(RouteShape, *path)) is None:
            continue
        plugin, _, named = shape.to.partition(".")
        if named and shape.command:
            validation.refuse(f"{shape.to!r} names a command already", *path, "command")
        route = Route(
            source=shape.from_,
            event_type=shape.event_type,
            to=plugin,
            command=named or shape.command or "handle",
            broadcast=shape.broadcast,
            place=validation.place(*path),
        )
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
        if (shape := validation.shaped(PipelineShape, *path)) is None:
            continue
        if first := pipelines_by_name.get(shape.name):
            at = f"{first.place.file}:{first.place.line}"
            validation.refuse(f"the name {shape.name!r} is taken, at {at}", *path, "name")
        if (shape.on is None) == (shape.on_hook is None):
            validation.refuse("write on: EVENT, or on-hook: job.completed", *path)
        reader = _Steps(validation)
        pipelines_by_name[shape.name] = Pipeline(
            name=shape.name,
            on=shape.on,
            on_hook=shape.on_hook,
            from_plugin=shape.from_plugin,
            condition=_condition(validation, shape.if_, ("payload", "context"), (*path, "if")),
            max_depth=shape.max_depth,
            execution_mode=shape.execution_mode,
            timeout_s=shape.timeout,
            steps=reader.steps(shape.steps, (*path, "steps")),
            place=validation.place(*path),
        )
    return tuple(pipelines_by_name.values())


class _Steps:
    """Reads the steps of one pipeline, whose ids differ."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._ids: set[str] = set()

    def steps(self, shapes: list[StepShape] | None, path: TreePath) -> tuple[PipelineStep, ...]:
        numbered = enumerate(shapes or ())
        return tuple(self._step(shape, (*path, number)) for number, shape in numbered)

    def _step(self, shape: StepShape, path: TreePath) -> PipelineStep:
        refuse = self._validation.refuse
        kinds = [kind for kind in ("uses", "call", "steps", "split") if getattr(shape, kind)]
        if len(kinds) != 1:
            has = " and ".join(kinds) or "nothing to do"
            refuse(f"it has {has}; write one of uses, call, steps and split", *path)
        if shape.id is not None:
            if shape.id in self._ids:
                refuse(f"the id {shape.id!r} is taken in this pipeline", *path, "id")
            self._ids.add(shape.id)
        for key, setting in (("with", shape.with_), ("baggage", shape.baggage)):
            if setting and shape.uses is None:
                refuse(f"{key!r} belongs to a step that uses a plugin", *path, key)
        if len(path) > 2 * MAX_DEPTH:
            refuse(f"steps are nested more than {MAX_DEPTH} deep", *path)
        claims, source, namespace = self._baggage(shape.baggage, (*path, "baggage"))
        return PipelineStep(
            id=shape.id,
            uses=shape.uses,
            call=shape.call,
            steps=self.steps(shape.steps, (*path, "steps")),
            split=self.steps(shape.split, (*path, "split")),
            with_=Frozen(shape.with_),
            baggage=Frozen(claims),
            baggage_from=source,
            namespace=namespace,
            condition=_condition(self._validation, shape.if_, _ALL_ROOTS, (*path, "if")),
            place=self._validation.place(*path),
        )

    def _baggage(
        self, entries: dict[str, str], path: TreePath
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


_ALL_ROOTS = ("payload", "context", "config")


def _condition(
    validation: Validation,
    shape: ConditionShape | None,
    roots: tuple[str, ...],
    path: TreePath,
    depth: int = 0,
) -> Condition | None:
    if shape is None:
        return None
    forms = [key for key in ("path", "all", "any", "not_") if getattr(shape, key) is not None]
    if len(forms) != 1 or (forms != ["path"] and shape.op is not None):
        message = "write one of: path with op and value, all: [...], any: [...], not: {...}"
        validation.refuse(message, *path)
        return None
    if depth > MAX_DEPTH:
        validation.refuse(f"conditions are nested more than {MAX_DEPTH} deep", *path)
        return None
    if shape.path is not None:
        return _predicate(validation, shape, roots, path)
    inner = shape.all or shape.any or ([shape.not_] if shape.not_ else [])
    key = forms[0].rstrip("_")
    parts = []
    for number, inner_shape in enumerate(inner):
        below = (*path, key) if key == "not" else (*path, key, number)
        parts.append(_condition(validation, inner_shape, roots, below, depth + 1))
    conditions = tuple(part for part in parts if part is not None)
    if not inner:
        validation.refuse("write at least one condition", *path, key)
    if key == "not":
        return Not(conditions[0]) if conditions else None
    return AllOf(conditions) if key == "all" else AnyOf(conditions)


def _predicate(
    validation: Validation, shape: ConditionShape, roots: tuple[str, ...], path: TreePath
) -> Predicate:
    assert shape.path is not None
    op, value = shape.op or "", shape.value
    if shape.path.split(".")[0] not in roots:
        message = f"{shape.path!r} begins nowhere; write a path of {', '.join(roots)}"
        validation.refuse(message, *path, "path")
    if op not in OPERATORS:
        message = f"{op!r} is no comparison{near(op, OPERATORS)}; write {', '.join(OPERATORS)}"
        validation.refuse(message, *path, "op")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in _NUMERIC and not is_number:
        validation.refuse(f"{op!r} compares numbers; write one", *path, "value")
    elif op in _TEXTUAL and not isinstance(value, str):
        validation.refuse(f"{op!r} compares text; write it in quotes", *path, "value")
    elif op == "in" and not isinstance(value, list):
        validation.refuse("'in' looks in a list; write value: [...]", *path, "value")
    elif op == "regex":
        try:
            re.compile(str(value))
        except re.error as error:
            validation.refuse(f"this is no regular expression: {error}", *path, "value")
    return Predicate(shape.path, op, frozen(value))
