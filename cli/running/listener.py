"""`bus listen`: an inbox whose handler is a command."""

from __future__ import annotations

import shutil
import signal
from contextlib import nullcontext

from ...schema.callbacks import AlreadyReported
from ...schema.errors import InvalidInput
from ...schema.stop_limit import end_by, lift_limit, obey
from ...subscribers.inboxes.inbox import Inbox
from ...subscribers.inboxes.session import Session
from ...workers.processes.own_child import StopSwitch
from ...workers.processes.run_process import run_process
from ...workers.processes.supervisors import Supervisors
from ...workers.raw_contract import environment_of
from ..show.output import Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message

#: The signals that end it after the current message; a second one ends it at once.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class CommandFailed(AlreadyReported):
    """The command did not exit with 0, or could not be run."""


class ReportingInbox(Inbox):
    """An inbox that reports on stderr which messages it parks; `options` are those of `Inbox`."""

    def __init__(self, output: Output, bus: LocalBus, agent: str, **options: Any) -> None:
        super().__init__(bus, agent, **options)
        self._output = output

    def _begin(self) -> None:
        before = {item.seq for item in self.parked()}
        super()._begin()  # which may park a message
        for item in self.parked():
            if item.seq not in before:
                self._note_parked(item.seq, item.attempts)

    def fail(self, message: Message, error: str) -> bool:
        """Record a failure, as `Inbox.fail` does."""
        is_parked = super().fail(message, error)
        if is_parked:
            self._note_parked(message.seq, self.attempts(message))
        return is_parked

    def _note_parked(self, seq: int, attempts: int) -> None:
        deliveries = counted(attempts, "deliver", "y", "ies")
        self._output.note(
            f"message {seq}: parked after {deliveries}; see 'bus parked list {self.agent}'"
        )


class CommandListener:
    """Runs a command for each message of an inbox, until it is told to stop.

    Args:
        output: where it reports messages that fail.
        inbox: the inbox.
        command: the command and its arguments.
        drain: end when no message is left.
        in_session: whether the agent's heart beats, and its start and stop are published.

    Raises:
        InvalidInput: there is no such command.
    """

    def __init__(
        self, output: Output, inbox: Inbox, command: list[str], *, drain: bool, in_session: bool
    ) -> None:
        if shutil.which(command[0]) is None:
            raise InvalidInput(f"there is no command {command[0]!a}")
        self._output = output
        self._inbox = inbox
        self._command = command
        self._drain = drain
        self._is_stopping = False
        self._session = Session(inbox.bus, inbox.agent) if in_session else None
        self._supervisors = Supervisors()
        self._switch = StopSwitch()
        self._is_running = False
        self._fatal_signal: int | None = None

    def run(self) -> None:
        """Deliver until the inbox is drained, if that is to end it, or a signal comes; blocks."""
        self._output.show_logs()
        obey(self._stop, *_SIGNALS)
        with self._supervisors, self._session or nullcontext():
            self._inbox.run(self._handle, drain=self._drain)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            self._fatal_signal = number
            self._end_at_once()
        elif self._is_running:
            lift_limit()  # the command may take as long as it does
        self._is_stopping = True
        self._inbox.stop()

    def _end_at_once(self) -> None:
        """End this process by a second signal, after killing a running command."""
        if self._fatal_signal is None:
            return
        if self._is_running:
            self._switch.stop(0)
            return
        end_by(self._fatal_signal)

    def _handle(self, message: Message) -> None:
        self._record_status("working", message.type)
        try:
            failure = self._failure(message)
        finally:
            self._record_status("idle", None)
        if failure is not None:
            self._output.note(
                f"message {message.seq}: {failure}"
                f" (delivery {message.attempt} of {self._inbox.max_deliveries})"
            )
            raise CommandFailed(failure)

    def _failure(self, message: Message) -> str | None:
        """Run the command for a message; return its failure as text, or None."""
        self._is_running = True
        try:
            end = run_process(
                self._command,
                message.to_json() + b"\n",
                env=environment_of(message, self._inbox.bus, self._inbox.agent),
                timeout_s=None,
                captures=False,
                stop=self._switch,
                supervisors=self._supervisors,
            )
        finally:
            self._is_running = False
        self._end_at_once()
        if end.start_error is not None or end.exit_code == 0:
            return end.start_error
        return f"killed by signal {end.signal}" if end.signal else f"exit status {end.exit_code}"

    def _record_status(self, status: str, task: str | None) -> None:
        if self._session is not None:
            self._session.heart.update(status, task=task)
