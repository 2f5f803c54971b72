"""A window of screen, in which the program of an agent is."""

from __future__ import annotations

import os
import re
import tempfile
import time
from dataclasses import dataclass

from .errors import NotWoken
from .multiplexer import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .program import Program

#: The variables by which screen finds its sessions.
_PLACES = ("HOME", "SCREENDIR")

#: How long screen may take to write down what a window shows, and between two looks, in seconds.
_WRITTEN_WITHIN_S, _LOOK_S = 5.0, 0.02


@dataclass(frozen=True, slots=True)
class Screen:
    """A window.

    Screen tells nobody which terminal a window has: one that was given another number since its
    program began is taken for the one that has the number now.

    Attributes:
        program: the program in it.
        session: the name of its session.
        window: its number.
    """

    program: Program
    session: str
    window: str

    @classmethod
    def of(cls, program: Program) -> Screen | None:
        """Return the window of a program, by its environment, or None; nothing is looked up yet."""
        variables = program.process.variables
        session, window = variables.get("STY", ""), variables.get("WINDOW", "")
        is_named = re.fullmatch(r"\d+\.\S+", session) and re.fullmatch(r"\d+", window)
        return cls(program, session, window) if is_named else None

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"window {self.window} of screen ({self.program.process.name})"

    def check(self) -> None:
        """Raise `NotWoken` unless what is typed reaches the program."""
        if int(self.session.partition(".")[0]) not in self.program.above:
            raise NotWoken(self.program.agent, "its program has left its window of screen")
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
            end = time.monotonic() + _WRITTEN_WITHIN_S
            while not os.path.exists(path) or not os.stat(path).st_size:
                if time.monotonic() > end:
                    raise NotWoken(self.program.agent, "screen does not tell what its window shows")
                time.sleep(_LOOK_S)
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()

    def _ask(self, *words: str) -> str:
        variables = self.program.process.variables
        told = {name: variables[name] for name in _PLACES if name in variables}
        line = ("screen", "-S", self.session, "-p", self.window, *words)
        return ask(self.program.agent, *line, told=told)
