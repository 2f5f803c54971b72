"""A pane of tmux, in which the program of an agent is."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from .errors import NotWoken
from .multiplexer import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .program import Program

#: A person who pressed a key in the pane within so many seconds is taken for one who types.
_QUIET_S = 10

_STATE = "#{pane_tty} #{pane_in_mode} #{pane_synchronized}"


@dataclass(frozen=True, slots=True)
class Tmux:
    """A pane.

    Attributes:
        program: the program in it.
        socket: the socket of its server.
        pane: its id, as `%3`.
    """

    program: Program
    socket: str
    pane: str

    @classmethod
    def of(cls, program: Program) -> Tmux | None:
        """Return the pane of a program, by its environment, or None; nothing is looked up yet."""
        variables = program.process.variables
        socket, pane = variables.get("TMUX", "").rsplit(",", 2)[0], variables.get("TMUX_PANE", "")
        return cls(program, socket, pane) if socket and re.fullmatch(r"%\d+", pane) else None

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"pane {self.pane} of tmux ({self.program.process.name})"

    def check(self) -> None:
        """Raise `NotWoken` unless what is typed reaches the program, and nobody else types."""
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
        return ask(self.program.agent, "tmux", "-u", "-S", self.socket, *words)

    def _refusal(self, reason: str) -> NotWoken:
        return NotWoken(self.program.agent, reason)
