"""The terminals of agents' programs: the process in a terminal, its screen, and typing there.

A terminal is found when it is needed, from the running processes; nothing is stored. An agent's
heart beats in its MCP server, which its program has started, so the program is the server's nearest
ancestor that reads a terminal. A server counts for a single agent, so that no message on the bus
can lead a nudge to another agent's terminal.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from dataclasses import dataclass

from ..bus.heartbeats import Liveness
from ..schema.children import run_child
from ..schema.errors import Refused
from ..schema.process_table import read_proc
from ..schema.processes import has_run_for
from ..subscribers.inboxes.session_names import SessionNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..bus.local_bus import LocalBus

# The error of an agent that was not woken.


class NotWoken(Refused):
    """An agent was not woken, and nothing was typed that is still there.

    Attributes:
        agent: its name.
        reason: the reason, and the next step if there is one.
    """

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"{agent!a} was not woken: {reason}")


# Processes and their terminals, as the kernel shows them in /proc.

_TERMINAL = re.compile(r"/dev/(pts/\d+|tty\d+)")


@dataclass(frozen=True, slots=True)
class TerminalProcess:
    """A process at a moment.

    Attributes:
        pid: its id.
        parent: the process that it belongs to.
        group: its process group.
        foreground: the group that its terminal listens to; -1 where it has none.
        is_stopped: whether it was stopped, by Ctrl-Z or a signal.
    """

    pid: int
    parent: int
    group: int
    foreground: int
    is_stopped: bool

    @property
    def words(self) -> list[str]:
        """Its command line."""
        return read_proc(self.pid, "cmdline").split("\0")[:-1]

    @property
    def name(self) -> str:
        """The name of its program, for people."""
        return read_proc(self.pid, "comm").strip() or "a program"

    @property
    def variables(self) -> dict[str, str]:
        """The environment with which it began; empty where it is another user's."""
        pairs = (entry.partition("=") for entry in read_proc(self.pid, "environ").split("\0"))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def is_mine(self) -> bool:
        """Whether it is a process of this user."""
        try:
            return os.stat(f"/proc/{self.pid}").st_uid == os.getuid()
        except OSError:  # it has ended
            return False

    @property
    def terminal(self) -> str | None:
        """The path of the terminal that is its standard input, or None."""
        path = _link(self.pid, "fd/0")
        return path if path is not None and _TERMINAL.fullmatch(path) else None

    def reads(self, terminal: str) -> bool:
        """Whether it reads a terminal; a process that hides its files, as `sudo` does, counts."""
        try:
            files = os.listdir(f"/proc/{self.pid}/fd")
        except PermissionError:
            return True
        except OSError:  # it has ended
            return False
        return self.terminal == terminal or any(
            _link(self.pid, f"fd/{number}") == "/dev/tty" for number in files
        )

    @property
    def file(self) -> str | None:
        """The path of the file that it runs, or None."""
        return _link(self.pid, "exe")


def process(pid: int) -> TerminalProcess | None:
    """Return a process, or None when it has ended."""
    # The name before the fields, in parentheses, may hold anything.
    fields = read_proc(pid, "stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return None
    parent, group, _, _, foreground = map(int, fields[1:6])
    return TerminalProcess(pid, parent, group, foreground, fields[0] in "Tt")


def ancestors_of(start: TerminalProcess) -> Iterator[TerminalProcess]:
    """Yield the ancestors of a process, the nearest first."""
    ancestor: TerminalProcess | None = start
    while ancestor is not None and ancestor.parent > 1:
        ancestor = process(ancestor.parent)
        if ancestor is not None:
            yield ancestor


def in_foreground(terminal: str, group: int) -> list[TerminalProcess]:
    """Return the processes of a group that read a terminal."""
    ids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [
        member
        for pid in ids
        if (member := process(pid)) is not None and member.group == group and member.reads(terminal)
    ]


def _link(pid: int, name: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:  # it has ended, or is another user's
        return None


#: The commands that are `bus`, before their word `mcp`.
_BUS = ("bus", "ackbus")

_HERE = (Liveness.ALIVE, Liveness.WARN)

#: The next step where an agent has no terminal.
BY_COMMAND = "give a command that wakes it: bus wake AGENT -- CMD"


@dataclass(frozen=True, slots=True)
class TerminalProgram:
    """The program of an agent, in the foreground of its terminal.

    Attributes:
        agent: the agent.
        process: its process.
        terminal: the path of its terminal.
        above: the ids of the processes above it.
    """

    agent: str
    process: TerminalProcess
    terminal: str
    above: frozenset[int]


def program_of(bus: LocalBus, agent: str) -> TerminalProgram:
    """Return the program of an agent that takes what is typed into its terminal now.

    Raises:
        NotWoken: there is none, or something else would take it.
    """
    if not os.path.exists("/proc/self/stat"):
        raise NotWoken(agent, f"only Linux says which terminal its program has; {BY_COMMAND}")
    server = _server(bus, agent)
    line = list(ancestors_of(server))
    mine = (ancestor for ancestor in line if ancestor.terminal is not None)
    reader = next(mine, None)
    if reader is None or reader.terminal is None:
        raise NotWoken(agent, f"its program reads no terminal here; {BY_COMMAND}")
    if not reader.is_mine:  # its variables would lead root to that user's tmux
        raise NotWoken(agent, f"{reader.name} is another user's; {BY_COMMAND}")
    if reader.is_stopped or reader.group != reader.foreground:
        raise NotWoken(agent, f"{reader.name} is not in the foreground of its terminal")
    pids = frozenset(ancestor.pid for ancestor in line)
    for other in in_foreground(reader.terminal, reader.foreground):
        if other.pid not in pids and other.file != reader.file:  # some start themselves again
            raise NotWoken(agent, f"{other.name} reads the terminal of {reader.name} as well")
    return TerminalProgram(agent, reader, reader.terminal, pids)


def _server(bus: LocalBus, agent: str) -> TerminalProcess:
    """Return the MCP server in which the heart of an agent, or of its session, beats."""
    sessions = SessionNames.of(bus).list(agent)
    name = next((session.name for session in sessions if session.claims_base), agent)
    beat = bus.heartbeats.get(name)
    if beat is None or beat.liveness not in _HERE:
        state = "it has never beaten its heart" if beat is None else f"it is {beat.liveness.value}"
        raise NotWoken(agent, f"{state}; start it, or {BY_COMMAND}")
    if beat.pid is None:
        raise NotWoken(agent, f"its process is not on this machine; {BY_COMMAND}")
    server = process(beat.pid) if has_run_for(beat.pid, beat.age_s) else None
    if server is None:
        raise NotWoken(agent, f"its process has ended; start it, or {BY_COMMAND}")
    if not server.is_mine:
        raise NotWoken(agent, f"its process is another user's; {BY_COMMAND}")
    for other in bus.heartbeats.list():
        if other.pid == beat.pid and other.agent != name and other.liveness in _HERE:
            reason = f"its heart beats in the process of {other.agent!a}"
            raise NotWoken(agent, f"{reason}; {BY_COMMAND}")
    pairs = zip(server.words, server.words[1:], strict=False)
    if not any(os.path.basename(word) in _BUS and then == "mcp" for word, then in pairs):
        raise NotWoken(agent, f"its heart does not beat in a 'bus mcp'; {BY_COMMAND}")
    return server


# Calls of the programs that keep terminals, tmux and screen.

_PLAIN = {"LC_ALL": "C.UTF-8", "TERM": "dumb"}

#: How long a tool may take to answer, in seconds.
_PATIENCE_S = 5.0


def run_tool(agent: str, *line: str, variables: Mapping[str, str] | None = None) -> str:
    """Run a command of tmux or screen, and return its output.

    Args:
        agent: the agent that is being woken.
        line: the command line.
        variables: further environment variables.

    Raises:
        NotWoken: it failed.
    """
    try:
        ended = run_child(
            line,
            limit_s=_PATIENCE_S,
            env={"PATH": os.environ.get("PATH", os.defpath), **_PLAIN, **(variables or {})},
        )
    except OSError as error:
        raise NotWoken(agent, f"{line[0]} can't be asked: {error}") from error
    if ended is None:
        raise NotWoken(agent, f"{line[0]} has no answer within {_PATIENCE_S:g} s")
    output = ended.out.decode(errors="replace")
    if ended.code:
        why = (ended.err.decode(errors="replace").strip() or output.strip()).partition("\n")[0]
        raise NotWoken(agent, f"{line[0]} refuses: {why or f'exit status {ended.code}'}")
    return output


# A window of screen, in which the program of an agent is.

#: The variables by which screen finds its sessions.
_PLACES = ("HOME", "SCREENDIR")


@dataclass(frozen=True, slots=True)
class ScreenTerminal:
    """A window of screen.

    Screen does not tell which terminal a window has: if a window was given another number since its
    program began, the window that has the old number now is used instead.

    Attributes:
        program: the program in it.
        session: the name of its session.
        window: its number.
    """

    program: TerminalProgram
    session: str
    window: str

    @classmethod
    def of(cls, program: TerminalProgram) -> ScreenTerminal | None:
        """Return the window of a program, by its environment, or None.

        A program in tmux may have the variables of a screen around it: screen runs no such program.
        """
        variables = program.process.variables
        session, window = variables.get("STY", ""), variables.get("WINDOW", "")
        named = re.fullmatch(r"(\d+)\.\S+", session)
        is_its = named and int(named[1]) in program.above and re.fullmatch(r"\d+", window)
        return cls(program, session, window) if is_its else None

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"window {self.window} of screen ({self.program.process.name})"

    def check(self) -> None:
        """Raise `NotWoken` unless what is typed reaches the program."""
        self._ask("-Q", "title")

    def type(self, text: str) -> None:
        """Type a text."""
        self._ask("-X", "stuff", text)

    def press_enter(self) -> None:
        """Press Enter."""
        self._ask("-X", "stuff", "^M")

    def erase(self, count: int) -> None:
        """Press Backspace so many times."""
        self._ask("-X", "stuff", "^?" * count)

    def lines(self) -> list[str]:
        """Return the lines that it shows."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shown")
            self._ask("-X", "hardcopy", path)
            self._ask("-Q", "title")  # is answered when the copy is whole
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    return file.read().splitlines()
            except OSError as error:
                reason = f"screen does not tell what its window shows: {error.strerror}"
                raise NotWoken(self.program.agent, reason) from error

    def _ask(self, *words: str) -> str:
        variables = self.program.process.variables
        places = {name: variables[name] for name in _PLACES if name in variables}
        line = ("screen", "-S", self.session, "-p", self.window, *words)
        return run_tool(self.program.agent, *line, variables=places)


# A pane of tmux, in which the program of an agent is.

#: After a key press in the pane, a person counts as typing for so many seconds.
_QUIET_S = 10

_STATE = "#{pane_tty} #{pane_in_mode} #{pane_synchronized}"


@dataclass(frozen=True, slots=True)
class TmuxTerminal:
    """A pane of tmux.

    Attributes:
        program: the program in it.
        socket: the socket of its server.
        pane: its id, as `%3`.
    """

    program: TerminalProgram
    socket: str
    pane: str

    @classmethod
    def of(cls, program: TerminalProgram) -> TmuxTerminal | None:
        """Return the pane of a program, by its environment, or None; nothing is looked up yet."""
        variables = program.process.variables
        socket, pane = variables.get("TMUX", "").rsplit(",", 2)[0], variables.get("TMUX_PANE", "")
        return cls(program, socket, pane) if socket and re.fullmatch(r"%\d+", pane) else None

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"pane {self.pane} of tmux ({self.program.process.name})"

    def check(self) -> None:
        """Raise `NotWoken` unless typed text reaches the program, and no person types there."""
        # Of a pane that is gone, all of it is empty.
        state = self._ask("display-message", "-p", "-t", self.pane, _STATE)
        terminal, _, modes = state.strip().partition(" ")
        if terminal != self.program.terminal:
            raise self._refusal(f"pane {self.pane} of tmux is not, or no longer, its program's")
        if modes != "0 0":
            how = "types into other panes as well" if modes == "0 1" else "is in copy mode"
            raise self._refusal(f"pane {self.pane} of tmux {how}")
        form = "#{client_activity} #{pane_id}"
        for line in self._ask("list-clients", "-F", form).splitlines():
            active, _, shown = line.partition(" ")
            if shown == self.pane and time.time() - int(active) < _QUIET_S:
                raise self._refusal(f"somebody is typing in pane {self.pane} of tmux")

    def type(self, text: str) -> None:
        """Type a text."""
        self._ask("send-keys", "-t", self.pane, "-l", text)

    def press_enter(self) -> None:
        """Press Enter."""
        self._ask("send-keys", "-t", self.pane, "Enter")

    def erase(self, count: int) -> None:
        """Press Backspace so many times."""
        self._ask("send-keys", "-t", self.pane, "-N", str(count), "BSpace")

    def lines(self) -> list[str]:
        """Return the lines that it shows."""
        return self._ask("capture-pane", "-p", "-t", self.pane).splitlines()

    def _ask(self, *words: str) -> str:
        return run_tool(self.program.agent, "tmux", "-u", "-S", self.socket, *words)

    def _refusal(self, reason: str) -> NotWoken:
        return NotWoken(self.program.agent, reason)
