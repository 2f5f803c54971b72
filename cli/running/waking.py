"""`bus wake`: a command of the user's that wakes an agent, and the lines about it."""

from __future__ import annotations

import os
import shutil

from ...schema.descriptors import write_all
from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.errors import InvalidInput
from ...wake.terminals import NotWoken
from ...workers.processes.run_process import run_process
from ...workers.processes.supervisors import Supervisors
from ..hints import AGENT_VARIABLE
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...wake.waking import Woken


class OwnCommand:
    """A command that wakes an agent. It gets the seq of the message that waits, and no text of it.

    Args:
        bus, agent: the agent.
        words: the command and its arguments; no shell runs it.

    Raises:
        InvalidInput: there is no such command.
    """

    def __init__(self, bus: LocalBus, agent: str, words: list[str]) -> None:
        if shutil.which(words[0]) is None:
            raise InvalidInput(f"there is no command {words[0]!a}")
        self._agent = agent
        self._words = words
        self._told = {BUS_DIR_VARIABLE: bus.layout.directory, AGENT_VARIABLE: agent}

    def check(self) -> str:
        """Return the name of the way."""
        return f"the command {self._words[0]}"

    def wake(self, mail: Message) -> None:
        """Run the command to its end; what it prints goes to stderr.

        Raises:
            NotWoken: it failed.
        """
        with Supervisors() as supervisors:
            end = run_process(
                self._words,
                b"",
                env=os.environ | self._told | {"BUS_MESSAGE_SEQ": str(mail.seq)},
                timeout_s=None,
                max_stdout_bytes=None,
                max_stderr_bytes=None,
                supervisors=supervisors,
                output=lambda _, data: _to_stderr(data),
            )
        if end.exit_code == 0:
            return
        status = f"killed by signal {end.signal}" if end.signal else f"exit status {end.exit_code}"
        raise NotWoken(self._agent, f"{self._words[0]!a}: {end.start_error or status}")


def print_end(output: Output, end: Woken | NotWoken, *, dry_run: bool = False) -> None:
    """Print how a wake ended."""
    if isinstance(end, NotWoken):
        output.result(
            {"agent": end.agent, "woken": False, "reason": end.reason},
            f"did not wake {end.agent}: {end.reason}",
        )
        return
    verb = "would wake" if dry_run else "woke"
    record = {"agent": end.agent, "woken": not dry_run, "seq": end.seq, "way": end.way}
    output.result(record, f"{verb} {end.agent} for message {end.seq}, by {end.way}")


def _to_stderr(data: bytes) -> None:
    write_all(2, data)
