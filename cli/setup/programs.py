"""The programs that can be set up: where each keeps its configuration, and in which form.

A folder of a project is named from its root, one of the person from the home directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .edits import ENTRY, Edit, JsonHook, JsonServer, TomlServer, hook_command, hook_mark

#: Our words for what happens in an agent, in the order in which it does.
EVENTS = ("start", "tool", "stop")

#: How long a program waits for a hook, in seconds. One takes a twentieth of a second.
_TIMEOUT_S = 10

#: Returns a hook as a program wants it, of a command.
HookForm = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Hooks:
    """How a program is told of hooks.

    Attributes:
        project, person: the file, for a project and for all of a person's.
        events: what the program calls our three events.
        form: how a hook is written.
        besides: what a new file must have besides.
    """

    project: str
    person: str
    events: tuple[str, str, str]
    form: HookForm
    besides: Mapping[str, object] = field(default_factory=dict)

    def edits(self, program: str, command: list[str]) -> list[Edit]:
        """Return what is put in: a hook for each event, all running one command."""
        return [
            JsonHook(
                ("hooks", name),
                self.form(hook_command([command[0], "hook", event, program, *command[1:]])),
                hook_mark(event, program),
            )
            for event, name in zip(EVENTS, self.events, strict=True)
        ]


@dataclass(frozen=True)
class Program:
    """A program whose agents may use the bus.

    Attributes:
        title: its name, for people.
        project, person: the file that names MCP servers, for a project and for all of a person's.
        within: the path to the servers in it.
        entry: how it is told of one.
        hooks: how it is told of hooks, or None when it has none that can hand mail over.
        note: what a person has still to do, or to know.
    """

    title: str
    project: str
    person: str
    within: tuple[str, ...]
    entry: Callable[[list[str]], dict[str, Any]]
    hooks: Hooks | None = None
    note: str = ""

    def server(self, command: list[str]) -> Edit:
        """Return what tells it of our server."""
        if self.project.endswith(".toml"):
            return TomlServer(self.within[0], self.entry(command))
        return JsonServer(self.within, self.entry(command))


def _plain(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _typed(command: list[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _local(command: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": command, "enabled": True}


def _group(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]}


def _named_group(command: str) -> dict[str, Any]:
    hook = {"name": ENTRY, "type": "command", "command": command, "timeout": _TIMEOUT_S * 1000}
    return {"hooks": [hook]}


def _flat(command: str) -> dict[str, Any]:
    return {"type": "command", "command": command, "timeout": _TIMEOUT_S}


def _bare(command: str) -> dict[str, Any]:
    return {"command": command, "timeout": _TIMEOUT_S}


def _code_folder() -> str:
    """Return where VS Code keeps what is a person's."""
    return "Library/Application Support/Code" if sys.platform == "darwin" else ".config/Code"


_VERSIONED = {"version": 1}

PROGRAMS = {
    "claude": Program(
        "Claude Code",
        ".mcp.json",
        ".claude.json",
        ("mcpServers",),
        _typed,
        Hooks(
            ".claude/settings.json",
            ".claude/settings.json",
            ("SessionStart", "PostToolUse", "Stop"),
            _group,
        ),
        "Claude Code asks once whether it may use the server of .mcp.json",
    ),
    "codex": Program(
        "Codex",
        ".codex/config.toml",
        ".codex/config.toml",
        ("mcp_servers",),
        _plain,
        Hooks(
            ".codex/hooks.json",
            ".codex/hooks.json",
            ("SessionStart", "PostToolUse", "Stop"),
            _group,
        ),
        "Codex reads a project's .codex where the project is trusted; review the hooks by /hooks",
    ),
    "gemini": Program(
        "Gemini CLI",
        ".gemini/settings.json",
        ".gemini/settings.json",
        ("mcpServers",),
        _plain,
        Hooks(
            ".gemini/settings.json",
            ".gemini/settings.json",
            ("SessionStart", "AfterTool", "AfterAgent"),
            _named_group,
        ),
    ),
    "cursor": Program(
        "Cursor",
        ".cursor/mcp.json",
        ".cursor/mcp.json",
        ("mcpServers",),
        _plain,
        Hooks(
            ".cursor/hooks.json",
            ".cursor/hooks.json",
            ("sessionStart", "postToolUse", "stop"),
            _bare,
            _VERSIONED,
        ),
        "Cursor lists the server in its settings, where it may have to be switched on",
    ),
    "copilot": Program(
        "GitHub Copilot in VS Code",
        ".vscode/mcp.json",
        f"{_code_folder()}/User/mcp.json",
        ("servers",),
        _typed,
        Hooks(
            ".github/hooks/ackbus.json",
            ".copilot/hooks/ackbus.json",
            ("SessionStart", "PostToolUse", "Stop"),
            _flat,
            _VERSIONED,
        ),
        "VS Code asks once whether it may start the server",
    ),
    "opencode": Program(
        "opencode",
        "opencode.json",
        ".config/opencode/opencode.json",
        ("mcp",),
        _local,
    ),
    "windsurf": Program(
        "Windsurf",
        "~/.codeium/windsurf/mcp_config.json",
        ".codeium/windsurf/mcp_config.json",
        ("mcpServers",),
        _plain,
        note="Windsurf has one server list for all projects: the entry is for this bus now",
    ),
}


def path_of(place: str, folder: str) -> str:
    """Return the path of a file in a folder; with `.jsonc` for `.json` where that is there."""
    path = os.path.join(folder, os.path.expanduser(place))
    alternative = f"{path}c"
    if place.endswith("opencode.json") and not os.path.exists(path) and os.path.exists(alternative):
        return alternative
    return path
