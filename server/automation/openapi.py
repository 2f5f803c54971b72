"""The documents of what is served: all of it, or one plugin's commands."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Response

from ...automation.plugins.discovery import Plugin
from ...automation.plugins.manifest import Command
from ..access.principals import Scope
from ..api.common import json_of
from ..problems import Problem, documented
from .common import PluginName, TheConfig, open_router
from .in_force import Current

router = open_router("discovery")

#: The name of the scheme by which operations ask for a token.
_SCHEME = "BearerAuth"
_SECURITY = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the configuration, or one that `bus token create` made.",
    }
}


@router.get("/plugin/{plugin}/openapi.json", responses=documented(400, 404))
async def describe_plugin(plugin: PluginName, config: TheConfig) -> Response:
    """Describe the commands of one plugin, as OpenAPI."""
    found = config.plugin(plugin)
    return json_of(
        {
            "openapi": "3.1.0",
            "info": {"title": found.name, "version": found.manifest.version},
            "paths": _paths(found),
            "components": {"securitySchemes": _SECURITY, "schemas": _schemas()},
        }
    )


def describe(app: FastAPI) -> None:
    """Have the document of an application describe each command of each plugin in force, too."""
    made = app.openapi()
    for operations in made["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # here wrong input is a bad request
            if "security" in operation:
                scopes = [scope for each in operation["security"] for scope in each["token"]]
                operation["security"] = [{_SCHEME: scopes}]
    schemas = made["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    made["components"] = {
        "schemas": schemas | _schemas(),
        "securitySchemes": _SECURITY,
    }

    def document() -> dict[str, Any]:
        current: Current = app.state.current
        plugins = current.get().plugins.values()
        commands = {path: item for plugin in plugins for path, item in _paths(plugin).items()}
        return made | {"paths": made["paths"] | commands}

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
            **{str(status): told for status, told in documented(400, 401, 403).items()},
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
