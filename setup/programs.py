"""The programs that can be set up: the places and forms of their configuration.

A file of a project is named from its root; one of a person as a shell would, since some programs
let a variable name the folder.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.layout import expand_home
from .edits import AbsentHook, Edit, JsonHook, JsonServer, JsonServerOfProject
from .record import ENTRY, PluginFile, hook_command, hook_mark
from .text_edits import TomlServer

# The parts of a program's setup: its files, and the entries of ours in each.

#: Our names of an agent's events, in their order.
EVENTS = ("start", "tool", "stop")

#: Our name of the event that an agent is idle: a hook then waits for mail.
WAIT = "wait"

#: Our name of the event that a summary takes the place of the conversation.
COMPACT = "compact"

#: The people who get the setup: all with the project, one person in it, or one in all projects.
Scope = Literal["project", "local", "global"]
PROJECT: Final = "project"
LOCAL: Final = "local"
GLOBAL: Final = "global"


@dataclass(frozen=True)
class EntrySpec:
    """The values for the entries of one program.

    Attributes:
        program: the program, as `bus setup` calls it.
        scope: who gets the setup.
        folder: the folder of the project.
        command: `bus`, with the options for agent and bus.
        profile: which tools a server is to offer; None leaves it to the server.
        bodies: whether hooks show bodies of messages.
        wakes: whether urgent mail and requests wake an idle agent.
    """

    program: str
    scope: Scope
    folder: str
    command: list[str]
    profile: str | None
    bodies: bool
    wakes: bool

    @property
    def hook_options(self) -> list[str]:
        """The options of hooks."""
        tools = [] if self.profile is None else ["--profile", self.profile]
        return self.command[1:] + ([] if self.bodies else ["--no-bodies"]) + tools


@dataclass(frozen=True)
class ProgramFile:
    """One configuration file of a program, and our entries in it.

    Attributes:
        project, person: the file for one project, and the file for all projects of a person.
        local: the file for one person in a project, which stays out of commits; None where the
            program has none.
    """

    project: str
    person: str
    local: str | None = field(default=None, kw_only=True)

    @property
    def extra_members(self) -> Mapping[str, object]:
        """Further members that a new file needs."""
        return {}

    def place(self, scope: Scope) -> str | None:
        """Return the file for a scope, or None."""
        return {PROJECT: self.project, LOCAL: self.local, GLOBAL: self.person}[scope]

    def edits(self, spec: EntrySpec) -> list[Edit]:
        """Return the edits of the file."""
        raise NotImplementedError

    @property
    def can_wait(self) -> bool:
        """Whether the program can wait for mail by this file while its agent is idle."""
        return False


@dataclass(frozen=True)
class Servers(ProgramFile):
    """MCP servers.

    Attributes:
        within: the path to them in the file.
        entry: how one is written there.
        shares: whether the file for a project has the servers of all projects, in one list.
    """

    within: tuple[str, ...]
    entry: Callable[[list[str]], dict[str, Any]]
    shares: bool = False

    def edits(self, spec: EntrySpec) -> list[Edit]:
        """Return the edit that adds our server."""
        bus, *options = spec.command
        tools = () if spec.profile is None else ("--profile", spec.profile)
        entry = self.entry([bus, "mcp", *options, *tools])
        if self.project.endswith(".toml"):
            return [TomlServer(self.within[0], entry)]
        if self.shares and spec.scope != GLOBAL:
            return [JsonServerOfProject(self.within, entry, os.path.basename(spec.folder))]
        if spec.scope == LOCAL:  # one file has the servers of all projects, by their folders
            folder = os.path.realpath(spec.folder)
            return [JsonServer(("projects", folder, *self.within), entry)]
        return [JsonServer(self.within, entry)]


@dataclass(frozen=True)
class Hooks(ProgramFile):
    """Hooks: the program's names of our three events, and the form of a hook.

    Attributes:
        waiting: the form of a hook that runs on while the agent is idle, if the program has one; it
            begins with a session, and with the end of each turn.
        compacts: the event that a summary takes the place of the conversation, if the program then
            begins no session.
    """

    events: tuple[str, str, str]
    form: Callable[[str], dict[str, Any]]
    is_versioned: bool = False
    waiting: Callable[[str], dict[str, Any]] | None = None
    compacts: str | None = None

    @property
    def can_wait(self) -> bool:
        """Whether the program can wait for mail by this file while its agent is idle."""
        return self.waiting is not None

    @property
    def extra_members(self) -> Mapping[str, object]:
        """Further members that a new file needs."""
        return {"version": 1} if self.is_versioned else {}

    def edits(self, spec: EntrySpec) -> list[Edit]:
        """Return the edits that add a hook for each event, all running one command."""
        hooks: list[Edit] = [
            self._hook(spec, event, name, self.form)
            for event, name in zip(EVENTS, self.events, strict=True)
        ]
        if self.compacts is not None:
            hooks.insert(0, self._hook(spec, COMPACT, self.compacts, self.form))
        if self.waiting is not None:
            for name in (self.events[0], self.events[-1]):
                hook = self._hook(spec, WAIT, name, self.waiting)
                hooks.append(hook if spec.wakes else AbsentHook(hook))
        return hooks

    def _hook(
        self, spec: EntrySpec, event: str, name: str, form: Callable[[str], dict[str, Any]]
    ) -> JsonHook:
        line = hook_command([spec.command[0], "hook", event, spec.program, *spec.hook_options])
        return JsonHook(("hooks", name), form(line), hook_mark(event, spec.program))


@dataclass(frozen=True)
class EventPlugin(ProgramFile):
    """A plugin, which a program has instead of hooks: the file is entirely ours."""

    @property
    def can_wait(self) -> bool:
        """Whether the program can wait for mail by this file while its agent is idle."""
        return True

    def edits(self, spec: EntrySpec) -> list[Edit]:
        """Return the edit that makes the plugin, which runs one command at each event."""
        command = [spec.command[0], *spec.hook_options]
        return [PluginFile.running(command, wakes=spec.wakes)]


#: How long a program waits for a hook, in seconds. One takes a twentieth of a second.
_TIMEOUT_S = 10

#: How long a program lets a hook wait beside an idle agent, in seconds: a week.
_IDLE_S = 604_800


@dataclass(frozen=True)
class SupportedProgram:
    """A program whose agents may use the bus.

    Attributes:
        title: its name, for people.
        parts: the files that configure the server, and hooks if the program has suitable ones.
        note, local_note: notes about steps that are left to a person; the second for scope local.
        also_reads: the files of other programs that it reads too, in words, by the program.
    """

    title: str
    parts: tuple[ProgramFile, ...]
    note: str = ""
    local_note: str = ""
    also_reads: Mapping[str, str] = field(default_factory=dict)

    @property
    def can_wait(self) -> bool:
        """Whether it can wait for mail while its agent is idle."""
        return any(part.can_wait for part in self.parts)

    @property
    def delivers(self) -> bool:
        """Whether hooks deliver mail to its agents."""
        return any(not isinstance(part, Servers) for part in self.parts)

    @property
    def has_local(self) -> bool:
        """Whether it can be set up for a project without a file that may be committed."""
        return all(part.local for part in self.parts)


def _plain(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _typed(command: list[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _always_loaded(command: list[str]) -> dict[str, Any]:
    """Return a server whose tools the model has from its first turn on, without a search."""
    return {**_typed(command), "alwaysLoad": True}


def _local(command: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": command, "enabled": True}


def _group(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]}


def _waiting_group(command: str) -> dict[str, Any]:
    hook = {"type": "command", "command": command, "timeout": _IDLE_S, "asyncRewake": True}
    return {"hooks": [hook]}


def _named_group(command: str) -> dict[str, Any]:
    hook = {"name": ENTRY, "type": "command", "command": command, "timeout": _TIMEOUT_S * 1000}
    return {"hooks": [hook]}


def _flat(command: str) -> dict[str, Any]:
    return {"type": "command", "command": command, "timeout": _TIMEOUT_S}


def _bare(command: str) -> dict[str, Any]:
    return {"command": command, "timeout": _TIMEOUT_S}


def _with_all_tools(command: list[str]) -> dict[str, Any]:
    return {"type": "local", **_plain(command), "tools": ["*"]}


_CODE = "Library/Application Support" if sys.platform == "darwin" else "${XDG_CONFIG_HOME:-.config}"

PROGRAMS = {
    "claude": SupportedProgram(
        "Claude Code",
        (
            Servers(
                ".mcp.json",
                "${CLAUDE_CONFIG_DIR:-~}/.claude.json",
                ("mcpServers",),
                _always_loaded,
                local="${CLAUDE_CONFIG_DIR:-~}/.claude.json",
            ),
            Hooks(
                ".claude/settings.json",
                "${CLAUDE_CONFIG_DIR:-.claude}/settings.json",
                ("SessionStart", "PostToolUse", "Stop"),
                _group,
                waiting=_waiting_group,
                local=".claude/settings.local.json",
            ),
        ),
        "Claude Code asks once whether it may use the server of a project's .mcp.json",
        "keep .claude/settings.local.json out of commits: name it in .gitignore",
    ),
    "codex": SupportedProgram(
        "Codex",
        (
            Servers(
                ".codex/config.toml",
                "${CODEX_HOME:-.codex}/config.toml",
                ("mcp_servers",),
                _plain,
            ),
            Hooks(
                ".codex/hooks.json",
                "${CODEX_HOME:-.codex}/hooks.json",
                ("SessionStart", "PostToolUse", "Stop"),
                _group,
                compacts="PostCompact",
            ),
        ),
        "Codex reads a project's .codex where the project is trusted; review the hooks by /hooks",
    ),
    "gemini": SupportedProgram(
        "Gemini CLI",
        (
            Servers(
                ".gemini/settings.json",
                "${GEMINI_CLI_HOME:-.}/.gemini/settings.json",
                ("mcpServers",),
                _plain,
            ),
            Hooks(
                ".gemini/settings.json",
                "${GEMINI_CLI_HOME:-.}/.gemini/settings.json",
                ("SessionStart", "AfterTool", "AfterAgent"),
                _named_group,
                compacts="PreCompress",
            ),
        ),
        "Gemini CLI starts servers and hooks only in folders that it was told to trust",
    ),
    "cursor": SupportedProgram(
        "Cursor",
        (
            Servers(".cursor/mcp.json", ".cursor/mcp.json", ("mcpServers",), _plain),
            Hooks(
                ".cursor/hooks.json",
                ".cursor/hooks.json",
                ("sessionStart", "postToolUse", "stop"),
                _bare,
                is_versioned=True,
                compacts="preCompact",
            ),
        ),
        "Cursor lists the server in its settings, where it may have to be switched on",
        also_reads={"claude": "hooks (if it may take third-party configurations)"},
    ),
    "copilot": SupportedProgram(
        "GitHub Copilot, in VS Code and as a command",
        (
            Servers(".vscode/mcp.json", f"{_CODE}/Code/User/mcp.json", ("servers",), _typed),
            Servers(
                ".github/mcp.json",
                "${COPILOT_HOME:-.copilot}/mcp-config.json",
                ("mcpServers",),
                _with_all_tools,
            ),
            Hooks(
                ".github/hooks/ackbus.json",
                "${COPILOT_HOME:-.copilot}/hooks/ackbus.json",
                ("SessionStart", "PostToolUse", "Stop"),
                _flat,
                is_versioned=True,
                compacts="PreCompact",
            ),
        ),
        "Copilot asks whether it may trust the folder",
        also_reads={"claude": "server and hooks"},
    ),
    "opencode": SupportedProgram(
        "opencode",
        (
            Servers(
                "opencode.json",
                "${XDG_CONFIG_HOME:-.config}/opencode/opencode.json",
                ("mcp",),
                _local,
            ),
            EventPlugin(
                ".opencode/plugins/ackbus.js",
                "${XDG_CONFIG_HOME:-.config}/opencode/plugins/ackbus.js",
            ),
        ),
    ),
    "windsurf": SupportedProgram(
        "Windsurf",
        (
            Servers(
                "~/.codeium/windsurf/mcp_config.json",
                ".codeium/windsurf/mcp_config.json",
                ("mcpServers",),
                _plain,
                shares=True,
                local="~/.codeium/windsurf/mcp_config.json",
            ),
        ),
        "Windsurf starts the servers of all projects in each: switch off those of others",
    ),
}


#: A variable that may name a folder of a person, with its default.
_VARIABLE = re.compile(r"^\$\{(\w+):-([^}]*)\}")


def enclosure_of(place: str, folder: str, *, is_global: bool) -> Enclosure:
    """Return what a file is in: the project, or the home or the folder that its person named.

    Args:
        place: the file, of a project or of a person.
        folder: the folder of the project, or the home.
        is_global: whether the folder is the home.
    """
    if not is_global and not place.startswith(("~", "$")):
        return Enclosure(folder)
    variable = _VARIABLE.match(place)
    named = os.environ.get(variable[1]) if variable else None
    if named:
        return Enclosure(os.path.join(folder, expand_home(named)), is_home=True)
    return Enclosure(expand_home("~"), is_home=True)


def path_of(place: str, folder: str) -> str:
    """Return the path of a file in a folder; with `.jsonc` for `.json` where that is there."""
    named = _VARIABLE.sub(lambda of: os.environ.get(of[1]) or of[2], place)
    path = os.path.normpath(os.path.join(folder, expand_home(named)))
    alternative = f"{path}c"
    if place.endswith("opencode.json") and not os.path.exists(path) and os.path.exists(alternative):
        return alternative
    return path
