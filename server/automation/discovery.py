"""Discovery: what there is to trigger. All but the details of a plugin is open."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from ...automation.plugins.discovery import Plugin
from ...automation.plugins.manifest import Command
from ..api.common import json_of
from .common import PluginName, TheConfig, guarded_router, open_router, problems
from .health import uptime_s
from .in_force import InForce

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
    return {"plugins": [_summary(each) for each in config.plugins.values()]}


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
    found = config.plugin(plugin)
    commands = [_command(each) for each in found.manifest.commands.values()]
    return json_of(_summary(found) | {"protocol": found.manifest.protocol, "commands": commands})


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


def _pipelines(config: InForce) -> list[dict[str, Any]]:
    pipelines = [each.pipeline for each in config.index.pipelines.values()]
    return [
        {
            "name": f"pipeline.{each.name}",
            "kind": "pipeline",
            "endpoint": f"/pipeline/{each.name}",
            "pipeline": each.name,
            "trigger": each.on or each.on_hook,
            "execution_mode": (
                "synchronous" if each.execution_mode == "synchronous" else "asynchronous"
            ),
            "timeout_secs": round(each.timeout_s),
        }
        for each in pipelines
    ]
