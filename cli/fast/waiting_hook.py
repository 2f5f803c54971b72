"""`bus hook wait`: a process beside an agent's program, whose end says that mail waits.

Some programs let a hook run on while the agent is idle, and go on with a turn when it has ended.
"""

from __future__ import annotations

import os
from itertools import islice

from ...bus.local_bus import LocalBus
from ...schema.process_table import ancestors
from ...wake.notes import WakeNotes
from ...wake.terminals import NotWoken
from ...wake.waking import PATIENCE_S, Waker, Woken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message


class _OwnProgram:
    """The way by which the end of this process wakes the agent."""

    def check(self) -> str:
        """Return its name."""
        return "its program"

    def wake(self, mail: Message) -> None:
        """Do nothing: the process ends."""


def waits_for(program: str) -> bool:
    """Whether a program waits for mail while its agent is idle, and goes on when it comes.

    Claude Code, asked for one turn (`claude -p`), would not end before its hooks do.
    """
    return program != "claude" or os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"


def wait(agent: str, directory: str, *, patience_s: float = PATIENCE_S) -> bool:
    """Wait until mail waits that wakes an agent; return whether it does.

    One process waits for an agent; another ends at once, and so does one that lost its program.
    """
    program = _program()
    with LocalBus.open(directory) as bus:
        waking = Waker(bus, agent, _OwnProgram())
        try:
            with WakeNotes(bus, agent).waiting():
                ends = waking.follow(patience_s=patience_s, goes_on=lambda: _program() == program)
                return any(isinstance(end, Woken) for end in ends)
        except NotWoken:
            return False


def _program() -> list[int]:
    """Return the ids of the processes above this one: a shell, perhaps, and the program."""
    return [process.pid for process in islice(ancestors(), 2)]
