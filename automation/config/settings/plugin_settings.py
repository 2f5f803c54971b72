"""Settings of plugins, and their schedules, as records."""

from __future__ import annotations

import orjson

from ....schema.errors import InvalidInput
from ..files.reading import hash_of
from ..own_zone import own_zone
from ..records import Frozen
from ..snapshot import (
    BreakerConfig,
    LimitsConfig,
    PluginConfig,
    RetryConfig,
    ScheduleEntry,
    Window,
)
from .shapes import PluginShape, ScheduleShape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import PreferredWindowShape
    from .validation import Validation

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
    found = {}
    for name in validation.map("plugins"):
        if not _is_name(name):
            validation.refuse(f"{name!r}: write letters, digits, _ and -", "plugins", name)
        elif (plugin := _plugin(validation, name, max_workers)) is not None:
            found[name] = plugin
    return found


def _is_name(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalnum() and name.isascii() and len(name) <= 128


def frozen(value: Any) -> Any:
    """Return a JSON value that does not change."""
    if isinstance(value, dict):
        return Frozen({key: frozen(each) for key, each in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def _plugin(validation: Validation, name: str, max_workers: int) -> PluginConfig | None:
    path = ("plugins", name)
    shape = validation.shaped(PluginShape, *path)
    schedules = _schedules(validation, name)
    if shape is None:
        return None
    if shape.parallelism is not None and shape.parallelism > max_workers:
        told = f"write at most {max_workers}, which is service.max_workers"
        validation.refuse(told, *path, "parallelism")
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
    """Return how a plugin's jobs are tried again; `max_attempts` beside `retry` is an old place."""
    if shape.retry is not None:
        if shape.max_attempts is not None:
            validation.refuse("it stands in retry, too", "plugins", name, "max_attempts")
        return RetryConfig(
            max_attempts=shape.retry.max_attempts, backoff_base_s=shape.retry.backoff_base
        )
    return RetryConfig(max_attempts=shape.max_attempts or RetryConfig().max_attempts)


def _schedules(validation: Validation, plugin: str) -> tuple[ScheduleEntry, ...]:
    found: list[ScheduleEntry] = []
    for number in range(len(validation.list("plugins", plugin, "schedules"))):
        path = ("plugins", plugin, "schedules", number)
        shape = validation.shaped(ScheduleShape, *path)
        if shape is None:
            continue
        if any(each.id == shape.id for each in found):
            told = f"the id {shape.id!r} is taken; give each schedule of a plugin its own"
            validation.refuse(told, *path)
        _check_kind(validation, shape, path)
        if shape.command == "handle":
            told = "'handle' answers events and has no times; schedule poll, or write a route"
            validation.refuse(told, *path, "command")
        if shape.preferred_window is not None:
            told = "times outside of it are moved to its next start, here; Ductile ignores it"
            validation.warn(told, *path, "preferred_window")
        found.append(_entry(validation, plugin, shape, path))
        _check_own_zone(validation, found[-1], path)
    return tuple(found)


def _check_own_zone(
    validation: Validation, entry: ScheduleEntry, path: tuple[str | int, ...]
) -> None:
    """Refuse a schedule that goes by the clock of a machine whose time zone can't be read."""
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
        told = f"{' and '.join(kinds)} are two kinds of times; write one of them"
        validation.refuse(told, *path, kinds[1])
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
        hash=hash_of(orjson.dumps([times[each] for each in _TIMING]))[:16],
        place=validation.place(*path),
        **times,
    )


def _window(shape: PreferredWindowShape | None) -> Window | None:
    return shape.window() if shape else None
