"""The bus that tools act on, and the heartbeats of the agents that joined through this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ...bus.bus import Bus
from ...bus.presence.heartbeat_thread import Hearts
from ...bus.presence.heartbeats import Heartbeat
from ...schema.errors import BusNotFound
from ...subscribers.inboxes.inbox import Inbox

#: How long the heart of an agent beats after its last call, in seconds: as long as the SDK keeps a
#: silent session.
IDLE_S = 1800.0


class Home:
    """An open bus, opened when it is first needed, and again when its file was replaced.

    Args:
        open_bus: opens it.
    """

    def __init__(self, open_bus: Callable[[], Bus]) -> None:
        self._open = open_bus
        self._lock = threading.Lock()
        self._bus: Bus | None = None
        self._file: tuple[int, int] | None = None
        self._hearts: Hearts | None = None
        # When each agent whose heart beats made its last call, by the monotonic clock.
        self._called: dict[str, float] = {}
        # The last beat of each agent before its first one here, until it is told of.
        self._before: dict[str, Heartbeat] = {}
        #: Whether `end_waiting` was called.
        self.is_ending = False

    def bus(self) -> Bus:
        """Return the bus.

        Raises:
            AckbusError: it is not there, or can't be used.
        """
        with self._lock:
            if self._bus is not None and _file_of(self._bus) != self._file:
                self._close()  # what is written to a deleted file, nobody ever reads
            if self._bus is None:
                bus = self._open()
                self._bus, self._file = bus, _file_of(bus)
                if self._file is None:
                    self._close()
                    raise BusNotFound(f"no bus in {bus.layout.directory}; make one with 'bus init'")
            return self._bus

    def beat_before(self, agent: str) -> Heartbeat | None:
        """Return, once, an agent's last beat before this process began to beat for it."""
        return self._before.pop(agent, None)

    def beat(self, agent: str, *, task: str | None = None) -> None:
        """Start the heartbeat of an agent, which goes on by itself; set its task if one is given.

        With its first call the agent becomes a reader, who receives broadcasts.

        Raises:
            InvalidInput: the name or the task breaks a rule.
        """
        bus = self.bus()
        if agent not in self._called:
            Inbox(bus, agent).join()
        with self._lock:
            if self._hearts is None:
                self._hearts = Hearts(bus)
                self._hearts.start()
            before = None if agent in self._called else bus.heartbeats.get(agent)
            if task is not None:
                self._hearts.beat(agent, "working", task=task)
            elif agent not in self._called:
                self._hearts.beat(agent)
            self._called[agent] = time.monotonic()
            if before is not None:
                self._before[agent] = before

    def rest(self, idle_s: float = IDLE_S) -> None:
        """Stop the hearts of the agents that have made no call for `idle_s` seconds."""
        before = time.monotonic() - idle_s
        with self._lock:
            for agent in [each for each, at in self._called.items() if at <= before]:
                del self._called[agent]
                self._before.pop(agent, None)
                if self._hearts is not None:
                    self._hearts.rest(agent)

    def leave(self, agent: str) -> None:
        """Stop the heart of an agent."""
        with self._lock:
            self._called.pop(agent, None)
            if self._hearts is not None:
                self._hearts.rest(agent)

    def end_waiting(self) -> None:
        """Make calls that wait come back with what there is. A signal handler may call it."""
        self.is_ending = True

    def close(self) -> None:
        """Stop all hearts and close the bus; a later call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._hearts is not None:
            self._hearts.stop()
        self._hearts = None
        self._called.clear()
        self._before.clear()
        if self._bus is not None:
            self._bus.close()
        self._bus = None


def _file_of(bus: Bus) -> tuple[int, int] | None:
    """Return the identity of the bus file in a bus's directory, or None when there is none."""
    try:
        found = os.stat(bus.layout.database)
    except OSError:
        return None
    return found.st_dev, found.st_ino
