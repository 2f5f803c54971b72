"""Operations on the whole: plugins to trigger, the configuration in force, the service."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any, Literal

import anyio
from fastapi import FastAPI, Path, Request, Response
from pydantic import BaseModel, Field

from ...automation.config.models import ScheduleEntry
from ...automation.config.redaction import shown
from ...automation.config.values import ConfigFaults
from ...automation.jobs.submission import Submission
from ...automation.plugins.discovery import Plugin
from ...automation.plugins.manifest import PluginCommand
from ...automation.records.facts import JobLog, LogFilter
from ...automation.schedules.firing import ScheduleControl
from ...automation.schedules.tables import Schedule, Schedules
from ...automation.status import breaker_history, health_of, reset_breakers, status_of
from ...bus.local_bus import LocalBus
from ...bus.log.log import Criteria
from ...schema.message.times import format_ts
from ...tasks.control.sessions import PROTOCOL_VERSION
from ..access.table import AUTOMATION
from ..access.tokens import Scope
from ..api.common import After, TheBus, json_of
from ..monitoring import CHECK_S, Readiness, not_answering
from ..problems import Problem, documented, refusal
from ..streams import STREAM, EventStream, LastEventId, stream_of
from ..waiting import in_thread
from .access import (
    ConfigFollower,
    PluginName,
    ServedConfig,
    TheConfig,
    guarded_router,
    open_router,
    problems,
)
from .triggers import MAX_COUNTED

# Health: whether the service and its bus work, for everybody who can reach the listener.

health_router = open_router("health")


class AutomationHealth(BaseModel):
    """The answer of a service that works, by a bus that can be read and written."""

    ok: bool
    status: str = Field(examples=["ok"])
    uptime_seconds: int
    queue_depth: int = Field(description="Jobs that wait or run.")
    plugins_loaded: int
    plugins_circuit_open: int = Field(description="Plugins with a breaker that is not closed.")
    config_path: str
    binary_path: str
    version: str
    protocolVersion: str = Field(description="Of PushPals' forms, for readers of its health.")


@health_router.head("/healthz", response_model=AutomationHealth, include_in_schema=False)
@health_router.get("/healthz", response_model=AutomationHealth, responses=documented(503))
async def healthz(request: Request, bus: TheBus, config: TheConfig) -> dict[str, Any] | Response:
    """Whether the service works, and its bus can be read and written."""
    readiness: Readiness = request.app.state.readiness
    with anyio.move_on_after(CHECK_S):
        await readiness.check()
        health = await in_thread(lambda: health_of(bus, len(config.plugins), uptime_s(request)))
        return (
            {"ok": True}
            | health
            | {
                "config_path": str(config.config.directory),
                "binary_path": sys.argv[0],
                "version": version("ackbus"),
                "protocolVersion": PROTOCOL_VERSION,
            }
        )
    return not_answering(request)


def uptime_s(request: Request) -> float:
    """Return for how long the application has been there, in seconds."""
    began_at: float = request.app.state.began_at
    return time.monotonic() - began_at


# Discovery: what there is to trigger. All but the details of a plugin is open.

open_routes = open_router("discovery")
discovery_router = guarded_router("discovery")

_SUMMARY = "Triggers plugins and pipelines, and tells what became of their jobs."
_FOR_MODELS = (
    "Discover and invoke plugins. Fetch /openapi.json for all of it, or /plugin/{name}/openapi.json"
    " for one plugin. Invoke a command by POST /plugin/{name}/{command}."
)


@open_routes.get("/")
async def index(request: Request, config: TheConfig) -> dict[str, Any]:
    """Say what this is, and where to look on."""
    return {
        "name": config.config.service.name,
        "description": _SUMMARY,
        "uptime_seconds": int(uptime_s(request)),
        "discovery": {
            "health": "/healthz",
            "skills": "/skills",
            "plugins": "/plugins",
            "openapi": "/openapi.json",
            "ai_plugin": "/.well-known/ai-plugin.json",
        },
    }


@open_routes.get("/.well-known/ai-plugin.json")
async def ai_plugin(config: TheConfig) -> dict[str, Any]:
    """Describe the service to models."""
    return {
        "schema_version": "v1",
        "name_for_human": config.config.service.name,
        "name_for_model": config.config.service.name,
        "description_for_human": _SUMMARY,
        "description_for_model": _FOR_MODELS,
        "auth": {"type": "bearer"},
        "api": {"type": "openapi", "url": "/openapi.json"},
    }


@open_routes.get("/plugins")
async def list_plugins(config: TheConfig) -> dict[str, Any]:
    """List the plugins with the names of their commands."""
    return {"plugins": [_summary(running) for running in config.plugins.values()]}


@open_routes.get("/skills")
async def list_skills(config: TheConfig) -> Response:
    """List all that can be triggered: commands of plugins, and pipelines."""
    commands = [
        _skill(plugin, command)
        for plugin in config.plugins.values()
        for command in plugin.manifest.commands.values()
    ]
    return json_of({"skills": [*commands, *_pipelines(config)]})


@discovery_router.get("/plugin/{plugin}", responses=problems(404))
async def show_plugin(plugin: PluginName, config: TheConfig) -> Response:
    """Show a plugin, and what each of its commands takes and gives."""
    running = config.plugin(plugin)
    commands = [_command(command) for command in running.manifest.commands.values()]
    return json_of(
        _summary(running) | {"protocol": running.manifest.protocol, "commands": commands}
    )


def _summary(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.manifest.version,
        "description": plugin.manifest.description,
        "commands": list(plugin.manifest.commands),
    }


def _command(command: PluginCommand) -> dict[str, Any]:
    record = {
        "name": command.name,
        "type": command.type,
        "description": command.description,
        "input_schema": command.input_schema,
        "output_schema": command.output_schema,
    }
    return {name: value for name, value in record.items() if value not in (None, "")}


def _skill(plugin: Plugin, command: PluginCommand) -> dict[str, Any]:
    return {
        "name": f"plugin.{plugin.name}.{command.name}",
        "kind": "plugin",
        "description": command.description or plugin.manifest.description,
        "endpoint": f"/plugin/{plugin.name}/{command.name}",
        "tier": command.type.upper(),
        "plugin": plugin.name,
        "command": command.name,
    }


def _pipelines(config: ServedConfig) -> list[dict[str, Any]]:
    pipelines = [entry.pipeline for entry in config.index.pipelines.values()]
    return [
        {
            "name": f"pipeline.{pipeline.name}",
            "kind": "pipeline",
            "endpoint": f"/pipeline/{pipeline.name}",
            "pipeline": pipeline.name,
            "trigger": pipeline.on or pipeline.on_hook,
            "execution_mode": (
                "synchronous" if pipeline.execution_mode == "synchronous" else "asynchronous"
            ),
            "timeout_secs": round(pipeline.timeout_s),
        }
        for pipeline in pipelines
    ]


# The documents of what is served: all of it, or one plugin's commands.

documents_router = open_router("discovery")

#: The name of the scheme by which operations ask for a token.
_SCHEME = "BearerAuth"
_SECURITY = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the configuration, or one that `bus token create` made.",
    }
}


@documents_router.get("/plugin/{plugin}/openapi.json", responses=documented(400, 404))
async def describe_plugin(plugin: PluginName, config: TheConfig) -> Response:
    """Describe the commands of one plugin, as OpenAPI."""
    running = config.plugin(plugin)
    return json_of(
        {
            "openapi": "3.1.0",
            "info": {"title": running.name, "version": running.manifest.version},
            "paths": _paths(running),
            "components": {"securitySchemes": _SECURITY, "schemas": _schemas()},
        }
    )


def describe(app: FastAPI) -> None:
    """Have the document of an application describe each command of each plugin in force, too."""
    base = app.openapi()
    for operations in base["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # here wrong input is a bad request
            if "security" in operation:
                scopes = [scope for need in operation["security"] for scope in need["token"]]
                operation["security"] = [{_SCHEME: scopes}]
    schemas = base["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    base["components"] = {
        "schemas": schemas | _schemas(),
        "securitySchemes": _SECURITY,
    }

    def document() -> dict[str, Any]:
        current: ConfigFollower = app.state.current
        plugins = current.get().plugins.values()
        commands = {path: item for plugin in plugins for path, item in _paths(plugin).items()}
        return base | {"paths": base["paths"] | commands}

    app.openapi = document  # type: ignore[method-assign]


def _schemas() -> dict[str, Any]:
    return {"Problem": Problem.model_json_schema()}


def _paths(plugin: Plugin) -> dict[str, Any]:
    return {
        f"/plugin/{plugin.name}/{command.name}": {"post": _operation(plugin, command)}
        for command in plugin.manifest.commands.values()
    }


def _operation(plugin: Plugin, command: PluginCommand) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{plugin.name}__{command.name}",
        "summary": command.description or f"{plugin.name}: {command.name}",
        "tags": [plugin.name],
        "responses": {
            "202": {"description": "Job queued"},
            **{str(status): response for status, response in documented(400, 401, 403).items()},
        },
        "security": [{_SCHEME: [Scope.PLUGIN_RO if command.type == "read" else Scope.PLUGIN_RW]}],
    }
    if isinstance(command.input_schema, dict):
        body = {
            "type": "object",
            "properties": {"payload": command.input_schema},
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": False, "content": content}
    return operation


# Operations: the configuration in force, and how the service does.

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
