"""The parts of a program's setup: its files, and the entries of ours in each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .edits import AbsentHook, Edit, JsonHook, JsonServer, JsonServerOfProject
from .ours import hook_command, hook_mark
from .plugin import PluginFile
from .text_edits import TomlServer

#: Our names of an agent's events, in their order.
EVENTS = ("start", "tool", "stop")

#: Our name of the event that an agent is idle: a hook waits for mail until it comes.
WAIT = "wait"

#: Our name of the event that a summary takes the place of the conversation.
COMPACT = "compact"

#: For all who have the project, for the person in the project, for all projects of the person.
Scope = Literal["project", "local", "global"]
PROJECT: Final = "project"
LOCAL: Final = "local"
GLOBAL: Final = "global"


@dataclass(frozen=True)
class Wanted:
    """The values that the entries of a program are to have.

    Attributes:
        program: the program, as `bus setup` calls it.
        scope: for whom it is set up.
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
    def of_hooks(self) -> list[str]:
        """The options of hooks."""
        tools = [] if self.profile is None else ["--profile", self.profile]
        return self.command[1:] + ([] if self.bodies else ["--no-bodies"]) + tools


@dataclass(frozen=True)
class Part:
    """One configuration file of a program, and our entries in it.

    Attributes:
        project, person: the file, for a project and for all of a person's.
        local: the file for a project as one person has it, which is no part of a commit, if the
            program has one.
    """

    project: str
    person: str
    local: str | None = field(default=None, kw_only=True)

    @property
    def besides(self) -> Mapping[str, object]:
        """Further members that a new file needs."""
        return {}

    def place(self, scope: Scope) -> str | None:
        """Return the file for a scope, or None."""
        return {PROJECT: self.project, LOCAL: self.local, GLOBAL: self.person}[scope]

    def edits(self, wanted: Wanted) -> list[Edit]:
        """Return the edits of the file."""
        raise NotImplementedError

    @property
    def can_wait(self) -> bool:
        """Whether by it the program can wait for mail while its agent is idle."""
        return False


@dataclass(frozen=True)
class Servers(Part):
    """MCP servers.

    Attributes:
        within: the path to them in the file.
        entry: how one is written there.
        shares: whether the file for a project has the servers of all projects, in one list.
    """

    within: tuple[str, ...]
    entry: Callable[[list[str]], dict[str, Any]]
    shares: bool = False

    def edits(self, wanted: Wanted) -> list[Edit]:
        """Return the edit that adds our server."""
        bus, *options = wanted.command
        tools = () if wanted.profile is None else ("--profile", wanted.profile)
        entry = self.entry([bus, "mcp", *options, *tools])
        if self.project.endswith(".toml"):
            return [TomlServer(self.within[0], entry)]
        if self.shares and wanted.scope != GLOBAL:
            return [JsonServerOfProject(self.within, entry, os.path.basename(wanted.folder))]
        if wanted.scope == LOCAL:  # one file has the servers of all projects, by their folders
            folder = os.path.realpath(wanted.folder)
            return [JsonServer(("projects", folder, *self.within), entry)]
        return [JsonServer(self.within, entry)]


@dataclass(frozen=True)
class Hooks(Part):
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
        """Whether by it the program can wait for mail while its agent is idle."""
        return self.waiting is not None

    @property
    def besides(self) -> Mapping[str, object]:
        """Further members that a new file needs."""
        return {"version": 1} if self.is_versioned else {}

    def edits(self, wanted: Wanted) -> list[Edit]:
        """Return the edits that add a hook for each event, all running one command."""
        made: list[Edit] = [
            self._hook(wanted, event, name, self.form)
            for event, name in zip(EVENTS, self.events, strict=True)
        ]
        if self.compacts is not None:
            made.insert(0, self._hook(wanted, COMPACT, self.compacts, self.form))
        if self.waiting is not None:
            for name in (self.events[0], self.events[-1]):
                hook = self._hook(wanted, WAIT, name, self.waiting)
                made.append(hook if wanted.wakes else AbsentHook(hook))
        return made

    def _hook(
        self, wanted: Wanted, event: str, name: str, form: Callable[[str], dict[str, Any]]
    ) -> JsonHook:
        line = hook_command([wanted.command[0], "hook", event, wanted.program, *wanted.of_hooks])
        return JsonHook(("hooks", name), form(line), hook_mark(event, wanted.program))


@dataclass(frozen=True)
class Plugin(Part):
    """A plugin, which a program has instead of hooks: the file is entirely ours."""

    @property
    def can_wait(self) -> bool:
        """Whether by it the program can wait for mail while its agent is idle."""
        return True

    def edits(self, wanted: Wanted) -> list[Edit]:
        """Return the edit that makes the plugin, which runs one command at each event."""
        command = [wanted.command[0], *wanted.of_hooks]
        return [PluginFile.running(command, wakes=wanted.wakes)]
