"""Commands to try after the demo: lines that can be pasted into the shell that it ran in."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...demo.proof import Takeover

_NAME = "bus"

#: How long a silent agent counts as alive, in seconds; a test compares it with the bus's value.
ALIVE_FOR_S = 30


def next_steps(directory: str, takeover: Takeover | None) -> Iterator[tuple[str, str]]:
    """Yield commands, and descriptions of their output.

    Args:
        directory: the bus.
        takeover: the takeover of the killed worker's task, or None.
    """
    bus, where = shlex.quote(this_command()), f"--dir {shlex.quote(directory)}"
    agents = "the agents, and whether they are alive"
    yield f"{bus} tail -n 20 {where}", "the newest messages"
    if takeover is not None:
        conversation = f"{bus} read --conversation {takeover.task} {where}"
        yield conversation, "the task that was taken over"
        agents += (
            f" ({takeover.killed}, which was killed, counts as alive until its last beat is"
            f" {ALIVE_FOR_S} s old)"
        )
    yield f"{bus} agents {where}", agents
    yield f"{bus} replay --from 1 {where}", "everything, from the first message"


def this_command() -> str:
    """Return the word that runs this program: its path, if its name finds another program."""
    running = os.path.abspath(sys.argv[0])
    found = shutil.which(_NAME)
    if not os.path.isfile(running) or (found and os.path.samefile(found, running)):
        return _NAME
    below = os.path.relpath(running)
    if below.startswith(os.pardir + os.sep):
        return running
    return below if os.sep in below else os.path.join(os.curdir, below)
