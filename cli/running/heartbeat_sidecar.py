"""`bus heartbeat --every`: beats for an agent in another language, until its process ends."""

from __future__ import annotations

import os
import select
import signal

from ...bus.bus import Bus
from ...schema.errors import AckbusError, InvalidInput, NotFound
from ...schema.process_table import is_running
from ...schema.stop_limit import obey
from ..show import output

#: The longest time between two beats, in seconds: with a longer one the agent would look dead.
MAX_INTERVAL_S = 30.0

#: How often a process is looked for where the kernel can't tell that it ended, in seconds.
LOOK_EVERY_S = 1.0

_STOPPED = "stopped"


class Sidecar:
    """Beats for an agent until a process ends, or SIGTERM or SIGINT comes.

    Args:
        bus: an open bus.
        agent: the agent.
        pid: the agent's process.
        every_s: the time between two beats, in seconds.

    Raises:
        InvalidInput: `every_s` is out of range.
        NotFound: there is no such process.
    """

    def __init__(self, bus: Bus, agent: str, pid: int, *, every_s: float) -> None:
        if not 0 < every_s < MAX_INTERVAL_S:
            raise InvalidInput(f"--every must be more than 0 and less than {MAX_INTERVAL_S:g} s")
        self._bus, self._agent, self._pid = bus, agent, pid
        self._every_s = every_s
        self._process_fd = _watch(pid)
        self._signal_reader, self._signal_writer = os.pipe()

    def run(self, status: str, *, task: str | None, progress: float | None) -> None:
        """Beat until the end, then once more with `stopped`; blocks."""
        obey(lambda *_: os.write(self._signal_writer, b"!"), signal.SIGINT, signal.SIGTERM)
        self._bus.heartbeats.beat(self._agent, status, task=task, progress=progress, pid=self._pid)
        while not self._has_ended(self._every_s):
            try:
                self._bus.heartbeats.beat(
                    self._agent, status, task=task, progress=progress, pid=self._pid
                )
            except AckbusError as error:
                output.note(f"a beat was not written: {error}")  # the next one may be
        self._bus.heartbeats.beat(self._agent, _STOPPED, pid=self._pid)

    def _has_ended(self, within_s: float) -> bool:
        """Wait for the end, or for the time of the next beat."""
        waiter = select.poll()
        waiter.register(self._signal_reader, select.POLLIN)
        if self._process_fd is not None:
            waiter.register(self._process_fd, select.POLLIN)
            return bool(waiter.poll(within_s * 1000))
        while within_s > 0:
            if waiter.poll(min(within_s, LOOK_EVERY_S) * 1000) or not is_running(self._pid):
                return True
            within_s -= LOOK_EVERY_S
        return False


def _watch(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise NotFound(f"there is no process {pid}") from error
    except (AttributeError, OSError):
        if not is_running(pid):
            raise NotFound(f"there is no process {pid}") from None
        return None
