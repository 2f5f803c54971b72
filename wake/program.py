"""The program of an agent: the process in a terminal that takes what is typed there.

It is found at the moment of need, by what runs, and nothing of it is stored. An agent's heart beats
in its MCP server, which its program has started, so the program is the nearest process above that
reads a terminal. A server counts for one agent: whoever writes into the bus can't lead a nudge to
another one's terminal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..bus.presence.heartbeats import Liveness
from ..schema.processes import has_run_for
from ..subscribers.inboxes.session_names import SessionNames
from .errors import NotWoken
from .processes import Process, above, in_foreground, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus

#: The commands that are `bus`, before their word `mcp`.
_BUS = ("bus", "ackbus")

_HERE = (Liveness.ALIVE, Liveness.WARN)

#: The next step where an agent has no terminal.
BY_COMMAND = "give a command that wakes it: bus wake AGENT -- CMD"


@dataclass(frozen=True, slots=True)
class Program:
    """The program of an agent, in the foreground of its terminal.

    Attributes:
        agent: the agent.
        process: its process.
        terminal: the path of its terminal.
        above: the ids of the processes above it.
    """

    agent: str
    process: Process
    terminal: str
    above: frozenset[int]


def program_of(bus: Bus, agent: str) -> Program:
    """Return the program of an agent that takes what is typed into its terminal now.

    Raises:
        NotWoken: there is none, or something else would take it.
    """
    if not os.path.exists("/proc/self/stat"):
        raise NotWoken(agent, f"only Linux says which terminal its program has; {BY_COMMAND}")
    server = _server(bus, agent)
    line = list(above(server))
    mine = (each for each in line if each.terminal is not None)
    found = next(mine, None)
    if found is None or found.terminal is None:
        raise NotWoken(agent, f"its program reads no terminal here; {BY_COMMAND}")
    if not found.is_mine:  # its variables would lead root to that user's tmux
        raise NotWoken(agent, f"{found.name} is another user's; {BY_COMMAND}")
    if found.is_stopped or found.group != found.foreground:
        raise NotWoken(agent, f"{found.name} is not in the foreground of its terminal")
    pids = frozenset(each.pid for each in line)
    for other in in_foreground(found.terminal, found.foreground):
        if other.pid not in pids and other.file != found.file:  # some start themselves again
            raise NotWoken(agent, f"{other.name} reads the terminal of {found.name} as well")
    return Program(agent, found, found.terminal, pids)


def _server(bus: Bus, agent: str) -> Process:
    """Return the MCP server in which the heart of an agent, or of its session, beats."""
    sessions = SessionNames.of(bus).list(agent)
    name = next((each.name for each in sessions if each.claims_base), agent)
    beat = bus.heartbeats.get(name)
    if beat is None or beat.liveness not in _HERE:
        state = "it has never beaten its heart" if beat is None else f"it is {beat.liveness.value}"
        raise NotWoken(agent, f"{state}; start it, or {BY_COMMAND}")
    if beat.pid is None:
        raise NotWoken(agent, f"its process is not on this machine; {BY_COMMAND}")
    found = process(beat.pid) if has_run_for(beat.pid, beat.age_s) else None
    if found is None:
        raise NotWoken(agent, f"its process has ended; start it, or {BY_COMMAND}")
    if not found.is_mine:
        raise NotWoken(agent, f"its process is another user's; {BY_COMMAND}")
    for other in bus.heartbeats.list():
        if other.pid == beat.pid and other.agent != name and other.liveness in _HERE:
            reason = f"its heart beats in the process of {other.agent!a}"
            raise NotWoken(agent, f"{reason}; {BY_COMMAND}")
    pairs = zip(found.words, found.words[1:], strict=False)
    if not any(os.path.basename(word) in _BUS and then == "mcp" for word, then in pairs):
        raise NotWoken(agent, f"its heart does not beat in a 'bus mcp'; {BY_COMMAND}")
    return found
