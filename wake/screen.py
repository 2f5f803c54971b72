"""A window of screen, in which the program of an agent is."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass

from .errors import NotWoken
from .multiplexer import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .program import Program

#: The variables by which screen finds its sessions.
_PLACES = ("HOME", "SCREENDIR")


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
        told = {name: variables[name] for name in _PLACES if name in variables}
        line = ("screen", "-S", self.session, "-p", self.window, *words)
        return ask(self.program.agent, *line, told=told)
