"""Discovery: what there is to trigger. All but the details of a plugin is open."""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import Any

import anyio
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from ...automation.plugins.discovery import Plugin
from ...automation.plugins.manifest import Command
from ...automation.status import health_of
from ...tasks.control.sessions import PROTOCOL_VERSION
from ..access.tokens import Scope
from ..api.common import TheBus, json_of
from ..health import CHECK_S, Readiness, not_answering
from ..problems import Problem, documented
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

# Whether the service and its bus work, for everybody who can reach the listener.

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


open_routes = open_router("discovery")
router = guarded_router("discovery")

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


@router.get("/plugin/{plugin}", responses=problems(404))
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


def _command(command: Command) -> dict[str, Any]:
    record = {
        "name": command.name,
        "type": command.type,
        "description": command.description,
        "input_schema": command.input_schema,
        "output_schema": command.output_schema,
    }
    return {name: value for name, value in record.items() if value not in (None, "")}


def _skill(plugin: Plugin, command: Command) -> dict[str, Any]:
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


def _operation(plugin: Plugin, command: Command) -> dict[str, Any]:
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
