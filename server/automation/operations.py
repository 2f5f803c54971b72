"""Operations: the configuration in force, and how the service does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from pydantic import BaseModel, Field

from ...automation.config.faults import ConfigFaults
from ...automation.config.models import ScheduleEntry
from ...automation.config.redaction import shown
from ...automation.jobs.submission import Submission
from ...automation.records.facts import JobLog, LogFilter
from ...automation.schedules.firing import ScheduleControl
from ...automation.schedules.tables import Schedule, Schedules
from ...automation.status import breaker_history, reset_breakers, status_of
from ...bus.local_bus import LocalBus
from ...bus.log.log import Criteria
from ...schema.message.times import format_ts
from ..access.table import AUTOMATION
from ..api.common import After, TheBus, json_of
from ..problems import documented, refusal
from ..streams import STREAM, EventStream, LastEventId, stream_of
from ..waiting import in_thread
from .access import PluginName, ServedConfig, TheConfig, guarded_router, problems
from .job_records import MAX_COUNTED

router = guarded_router("operations")

#: How far back the summary looks, in milliseconds, and how it says so.
_WINDOW_MS, _WINDOW = 24 * 3_600_000, "24h"

#: The parts of the state of the service that are about its queue.
_OF_QUEUE = ("queue_depth", "running", "oldest_wait_s", "is_saturated", "dead")


class Reloaded(BaseModel):
    """A configuration that was taken."""

    status: str = Field(examples=["ok"])
    reloaded_at: str
    message: str
    warnings: list[str] = Field(description="What waits for the next start.")


@router.post("/system/reload", response_model=Reloaded, responses=problems() | documented(409, 504))
async def reload(request: Request, bus: TheBus) -> Response:
    """Take the configuration again: all of it, or nothing, and then 409 says what is wrong."""
    act: Callable[[], list[str]] = request.app.state.reload
    try:
        warnings = await in_thread(act)
    except ConfigFaults as error:
        faults = [asdict(fault) for fault in error.faults]
        return refusal(request, 409, "configuration-refused", str(error), faults=faults)
    return json_of(
        {
            "status": "ok",
            "reloaded_at": format_ts(bus.now_ms()),
            "message": "Configuration reloaded successfully.",
            "warnings": warnings,
        }
    )


@router.get("/config/view", responses=problems())
async def view_config(config: TheConfig) -> Response:
    """Show the configuration in force, without secrets, and what begins each pipeline."""
    view = shown(config.config)
    return json_of(view | {"compiled_routes": {p["name"]: _begun_by(p) for p in view["pipelines"]}})


def _begun_by(pipeline: dict[str, Any]) -> dict[str, Any]:
    """Return what begins a pipeline: a type of event or a hook, of which plugin, and when."""
    return {
        "event_type": pipeline["on"],
        "hook": pipeline["on_hook"],
        "source_plugin": pipeline["from_plugin"],
        "if": pipeline["condition"],
        "max_depth": pipeline["max_depth"],
    }


@router.get("/analytics/queue", responses=problems())
def show_queue(bus: TheBus, config: TheConfig) -> Response:
    """Show how many jobs wait and run, and for how many there is a worker."""
    status, workers = status_of(bus), config.config.service.max_workers
    record = {name: status[name] for name in _OF_QUEUE} | {"max_workers": workers}
    plugins = list(status["plugins"].values())
    return json_of(record | {"utilization": status["running"] / workers, "plugins": plugins})


@router.get("/analytics/summary", responses=problems())
def show_summary(bus: TheBus) -> Response:
    """Count how the attempts of the last 24 hours have ended."""
    log, since = JobLog.of(bus), format_ts(max(0, bus.now_ms() - _WINDOW_MS))
    states = ("succeeded", "failed", "timed_out", "dead")
    stats = {
        state: log.count(LogFilter(statuses=(state,), since=since), MAX_COUNTED) for state in states
    }
    return json_of({"window": _WINDOW, "stats": stats})


@router.get("/breakers/{plugin}", responses=problems(404))
def show_breakers(plugin: PluginName, bus: TheBus, config: TheConfig) -> Response:
    """Show the circuit breakers of a plugin, and how they came to their states."""
    return json_of(breaker_history(bus, config.plugin(plugin).name))


@router.post("/breakers/{plugin}/reset", responses=problems(404))
def close_breakers(plugin: PluginName, bus: TheBus, config: TheConfig) -> dict[str, Any]:
    """Close the circuit breakers of a plugin: its schedules go on at once."""
    name = config.plugin(plugin).name
    return {"plugin": name, "closed": reset_breakers(bus, name)}


# The events of plugins and their jobs, as they are stored.

events_router = guarded_router("events")

#: The messages of automation: requests for jobs, and events.
_TYPES = "plugin.>"


@events_router.get(
    "/events", status_code=200, response_class=EventStream, responses=STREAM | problems(409)
)
async def follow_events(
    request: Request,
    bus: TheBus,
    after: After | None = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow jobs and events as server-sent events: first those after a seq, then new ones.

    Without `after` it begins with new ones. The id of an event is its message's seq, its data the
    message. A client that comes back with the last id that it has misses nothing.
    """
    filters = Criteria(_TYPES, None, None)
    return stream_of(request, bus, filters, after, last_event_id, row=AUTOMATION["GET /events"])


# Schedules: when each is due, and acts by hand.

schedules_router = guarded_router("schedules")

ScheduleId = Annotated[str, Path(min_length=1, max_length=128, description="Its schedule.")]

#: The settings by which a schedule says its times, and what each is called.
_MODES = (("every_s", "every"), ("cron", "cron"), ("at_ms", "at"), ("after_s", "after"))


@schedules_router.get("/scheduler/jobs", responses=problems())
def list_schedules(bus: TheBus, config: TheConfig) -> Response:
    """List the schedules, and when each is due next."""
    schedules = {(schedule.plugin, schedule.id): schedule for schedule in Schedules.of(bus).all()}
    entries = config.config.schedules().items()
    return json_of({"jobs": [_record(entry, schedules.get(key)) for key, entry in entries]})


@schedules_router.post("/scheduler/jobs/{plugin}/{schedule}/pause", responses=problems(404))
def pause_schedule(
    plugin: PluginName, schedule: ScheduleId, bus: TheBus, config: TheConfig
) -> dict[str, Any]:
    """Decide about no time of a schedule until it is resumed. Safe to repeat."""
    _by_hand(bus, config).pause(plugin, schedule)
    return {"plugin": plugin, "schedule_id": schedule, "status": "paused"}


@schedules_router.post("/scheduler/jobs/{plugin}/{schedule}/resume", responses=problems(404))
def resume_schedule(
    plugin: PluginName, schedule: ScheduleId, bus: TheBus, config: TheConfig
) -> dict[str, Any]:
    """Go on with the next time of a paused schedule; what lay between is not run."""
    _by_hand(bus, config).resume(plugin, schedule)
    return {"plugin": plugin, "schedule_id": schedule, "status": "active"}


@schedules_router.post(
    "/scheduler/jobs/{plugin}/{schedule}/run", status_code=202, responses=problems(404)
)
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


def _by_hand(bus: LocalBus, config: ServedConfig) -> ScheduleControl:
    return ScheduleControl(bus, Submission(bus), config.config)


def _record(entry: ScheduleEntry, schedule: Schedule | None) -> dict[str, Any]:
    due_ms = None if schedule is None else schedule.due_ms
    record = {
        "plugin": entry.plugin,
        "schedule_id": entry.id,
        "command": entry.command,
        "mode": next(name for field, name in _MODES if getattr(entry, field) is not None),
        "status": _status(schedule),
        "timezone": entry.timezone,
        "next_run_at": None if due_ms is None else format_ts(due_ms),
    }
    return {name: value for name, value in record.items() if value is not None}


def _status(schedule: Schedule | None) -> Literal["active", "paused", "exhausted"]:
    if schedule is not None and schedule.paused_at_ms is not None:
        return "paused"
    return "exhausted" if schedule is not None and schedule.due_ms is None else "active"
