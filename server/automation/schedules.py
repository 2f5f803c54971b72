"""Schedules: when each is due, and acts by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Response

from ...automation.config.snapshot import ScheduleEntry
from ...automation.jobs.submission import Submission
from ...automation.schedules.by_hand import SchedulesByHand
from ...automation.schedules.tables import Schedule, Schedules
from ...bus.bus import Bus
from ...schema.message.times import format_ts
from ..api.common import TheBus, json_of
from .common import PluginName, TheConfig, guarded_router, problems
from .in_force import InForce

router = guarded_router("schedules")

ScheduleId = Annotated[str, Path(min_length=1, max_length=128, description="Its schedule.")]

#: The settings by which a schedule says its times, and what each is called.
_MODES = (("every_s", "every"), ("cron", "cron"), ("at_ms", "at"), ("after_s", "after"))


@router.get("/scheduler/jobs", responses=problems())
def list_schedules(bus: TheBus, config: TheConfig) -> Response:
    """List the schedules, and when each is due next."""
    known = {(each.plugin, each.id): each for each in Schedules.of(bus).all()}
    entries = config.config.schedules().items()
    return json_of({"jobs": [_record(entry, known.get(key)) for key, entry in entries]})


@router.post("/scheduler/jobs/{plugin}/{schedule}/pause", responses=problems(404))
def pause_schedule(
    plugin: PluginName, schedule: ScheduleId, bus: TheBus, config: TheConfig
) -> dict[str, Any]:
    """Decide about no time of a schedule until it is resumed. Safe to repeat."""
    _by_hand(bus, config).pause(plugin, schedule)
    return {"plugin": plugin, "schedule_id": schedule, "status": "paused"}


@router.post("/scheduler/jobs/{plugin}/{schedule}/resume", responses=problems(404))
def resume_schedule(
    plugin: PluginName, schedule: ScheduleId, bus: TheBus, config: TheConfig
) -> dict[str, Any]:
    """Go on with the next time of a paused schedule; what lay between is not run."""
    _by_hand(bus, config).resume(plugin, schedule)
    return {"plugin": plugin, "schedule_id": schedule, "status": "active"}


@router.post("/scheduler/jobs/{plugin}/{schedule}/run", status_code=202, responses=problems(404))
def run_schedule(
    plugin: PluginName, schedule: ScheduleId, bus: TheBus, config: TheConfig
) -> dict[str, Any]:
    """Begin a job of a schedule at once, besides its times."""
    decision = _by_hand(bus, config).run_now(plugin, schedule)
    return {
        "plugin": plugin,
        "schedule_id": schedule,
        "job_id": decision.job_id,
        "status": "queued",
    }


def _by_hand(bus: Bus, config: InForce) -> SchedulesByHand:
    return SchedulesByHand(bus, Submission(bus), config.config)


def _record(entry: ScheduleEntry, known: Schedule | None) -> dict[str, Any]:
    due_ms = None if known is None else known.due_ms
    record = {
        "plugin": entry.plugin,
        "schedule_id": entry.id,
        "command": entry.command,
        "mode": next(name for field, name in _MODES if getattr(entry, field) is not None),
        "status": _status(known),
        "timezone": entry.timezone,
        "next_run_at": None if due_ms is None else format_ts(due_ms),
    }
    return {name: value for name, value in record.items() if value is not None}


def _status(known: Schedule | None) -> Literal["active", "paused", "exhausted"]:
    if known is not None and known.paused_at_ms is not None:
        return "paused"
    return "exhausted" if known is not None and known.due_ms is None else "active"
