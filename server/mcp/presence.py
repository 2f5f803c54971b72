"""The presence of the agent that a program's server acts for: its first beat, and its last."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread
    from types import FrameType

    from ...bus.local_bus import LocalBus
    from .session import BusHandle

#: How long the last beats may take when a signal ends the process, in seconds: less than the grace
#: of programs before they kill it.
_GOODBYE_S = 1.5


class PresenceThread:
    """Opens the bus and joins the agent, in a thread, since a bus may be locked.

    Args:
        open_bus: opens the bus.
        agent, holder: as for `McpSession`; with no agent it chooses a name later.
        prepare: is called before anything of the bus is loaded.
    """

    def __init__(
        self,
        open_bus: Callable[[], LocalBus],
        agent: str | None,
        holder: str | None,
        prepare: Callable[[], None],
    ) -> None:
        self._open_bus = open_bus
        self._agent = agent
        self._holder = holder
        self._prepare = prepare
        self._thread: Thread | None = None
        self._home: BusHandle | None = None

    def begin(self) -> None:
        """Join the agent, if there is one; its heart beats from then on. Returns at once."""
        if self._agent is not None and self._thread is None:
            from ...schema.processes import start_thread

            self._thread = start_thread(self._arrive, "arrival")

    def home(self) -> BusHandle:
        """Return the bus, where the agent has joined."""
        if self._thread is not None:
            self._thread.join()
        if self._home is None:  # not begun, or it failed: then it fails here with its error
            self._home = self._arrive()
        return self._home

    def close(self) -> None:
        """Record that the agent has stopped."""
        if self._thread is not None:
            self._thread.join()
        if self._home is not None:
            self._home.close()

    def end_by_signals(self) -> None:
        """Make SIGTERM and the like end the process as usual, but after the last heartbeat.

        The process ends at once: nothing else could interrupt its read of stdin.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        from ...schema.stop_limit import end_by

        if self._thread is not None or self._home is not None:
            from ...schema.processes import start_thread

            start_thread(self.close, "goodbye").join(_GOODBYE_S)
        end_by(number)

    def _arrive(self) -> BusHandle:
        self._prepare()
        import logging

        from ...schema.errors import AckbusError
        from .session import BusHandle, McpSession

        self._home = home = BusHandle(self._open_bus)
        if self._agent is not None:
            try:
                McpSession(home, self._agent, holder=self._holder).agent()
            except AckbusError as error:
                logging.getLogger("ackbus.mcp").warning("%s", error)
        return home
