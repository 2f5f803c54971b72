"""Operations: the configuration in force, and how the service does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, Field

from ...automation.config.faults import ConfigFaults
from ...automation.config.redaction import shown
from ...automation.records.job_log import JobLog, LogFilter
from ...automation.status import breaker_history, reset_breakers, status_of
from ...schema.message.times import format_ts
from ..api.common import TheBus, json_of
from ..problems import documented, refusal
from ..threads import in_thread
from .common import (
    PluginName,
    TheConfig,
    guarded_router,
    problems,
)
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
