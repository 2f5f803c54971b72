"""Running a worker at a terminal: its command must be there, and signals end it."""

from __future__ import annotations

import os
import shutil
import signal

from ...schema.errors import InvalidInput
from ...schema.stop_limit import lift_limit, obey
from ..logs import show_logs
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ...workers.commands.json_contract import JsonCommand
    from ...workers.commands.raw_contract import RawCommand
    from ...workers.worker import Worker

#: The signals that stop a worker after its running jobs; a second one, or SIGQUIT, at once.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class WorkerHost:
    """Runs a worker until it is done, or signals stop it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._is_stopping = False
        self._ended_by: int | None = None  # the signal that ended what runs

    def run(self, work: RawCommand | JsonCommand, *, once: bool, drain: bool) -> int:
        """Work, and return the exit code: 0, or 128 and the signal that ended it at once."""
        show_logs()
        obey(self._stop, *_SIGNALS, keeps_ignored=True)
        self._worker.run_work(work, once=once, drain=drain)
        return 0 if self._ended_by is None else 128 + self._ended_by

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping or number == signal.SIGQUIT:
            self._ended_by = self._ended_by or number
            self._worker.stop_now()
        else:
            self._is_stopping = True
            if self._worker.is_working:
                lift_limit()  # what runs may take as long as it does
            self._worker.stop()
            output.remark(
                "ending when what runs has ended; a second Ctrl-C or SIGTERM ends that now"
            )


def check_command(name: str) -> None:
    """Refuse a missing command, on which each job would lose an attempt.

    Raises:
        InvalidInput: it can't be found, or is not executable.
    """
    if shutil.which(name) is not None:
        return
    if os.sep not in name:
        raise InvalidInput(f"there is no command {name!a} on the PATH; give its path, like ./cmd")
    if os.path.isfile(name):
        raise InvalidInput(f"{name!a} is not executable; make it so with chmod +x")
    raise InvalidInput(f"there is no command {name!a}; give the path of a program that is there")
