"""A nudge: one fixed line that is typed into the terminal of an agent's program.

Text of messages and names of agents never become what is typed. A program may ask something just
then: a letter or Enter would answer. So the first character is one that answers nothing; the others
follow when it is shown where a line begins, and Enter when the whole line is.
"""

from __future__ import annotations

import time
from itertools import accumulate, takewhile
from typing import Protocol

from .errors import NotWoken
from .program import BY_COMMAND, program_of
from .screen import Screen
from .tmux import Tmux
from .waking import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.bus import Bus
    from ..schema.message.message import Message

#: All that is ever typed.
LINE = f"({TEXT})"

#: How long a program may take to show it, and how often it is looked for, in seconds.
_SHOWN_WITHIN_S, _LOOK_S = 3.0, 0.05


class Terminal(Protocol):
    """A window of tmux or screen in which the program of an agent is."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def check(self) -> None:
        """Raise `NotWoken` unless what is typed reaches the program, and nobody else types."""

    def type(self, text: str) -> None:
        """Type a text."""

    def press_enter(self) -> None:
        """Press Enter."""

    def erase(self, count: int) -> None:
        """Press Backspace so many times."""

    def lines(self) -> list[str]:
        """Return the lines that it shows."""


class Nudge:
    """The way to wake an agent by its terminal.

    Args:
        bus, agent: the agent.
    """

    def __init__(self, bus: Bus, agent: str) -> None:
        self._bus = bus
        self._agent = agent

    def check(self) -> str:
        """Return the name of the way, as it is now.

        Raises:
            NotWoken: nothing may be typed now.
        """
        return self._terminal().name

    def wake(self, mail: Message) -> None:
        """Type the line, and press Enter.

        Raises:
            NotWoken: the line was not taken. What was typed of it was erased, unless the terminal
                is another's by then: the reason says so.
        """
        typed = ""
        try:
            for part in (LINE[0], LINE[1:]):
                terminal = self._terminal()
                before = _alone(typed + part, terminal.lines())
                typed += part
                terminal.type(part)
                if not _is_shown(typed, terminal, before):
                    terminal.erase(len(typed))
                    typed = ""
                    reason = "takes no line now: it asks something, or has a line begun"
                    raise NotWoken(self._agent, f"{terminal.name} {reason}")
            self._terminal().press_enter()
        except NotWoken as error:
            if not typed:
                raise
            left = f"{error.reason}; {typed!r} may be left in its prompt"
            raise NotWoken(self._agent, left) from error

    def _terminal(self) -> Terminal:
        program = program_of(self._bus, self._agent)
        for kind in (Screen, Tmux):
            terminal: Terminal | None = kind.of(program)
            if terminal is not None:
                terminal.check()
                return terminal
        name = program.process.name
        raise NotWoken(self._agent, f"{name} is in neither tmux nor screen; {BY_COMMAND}")


def _is_shown(line: str, terminal: Terminal, before: int) -> bool:
    """Wait until a line is shown once more than before; return whether it was in time."""
    end = time.monotonic() + _SHOWN_WITHIN_S
    while True:
        is_last = time.monotonic() > end  # told before the look, which may itself take long
        if _alone(line, terminal.lines()) > before:
            return True
        if is_last:
            return False
        time.sleep(_LOOK_S)


def _alone(text: str, lines: list[str]) -> int:
    """Return how often lines have a text, with nothing but a prompt or a frame beside it.

    A narrow window has the text on several lines: then its letters count.
    """
    letters, shown = _letters(text), [_letters(line) for line in lines]
    if not letters:
        return sum(text in line and not each for line, each in zip(lines, shown, strict=True))
    ends = (accumulate(takewhile(bool, shown[start:])) for start in range(len(shown)))
    return sum(letters in each for each in ends)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
