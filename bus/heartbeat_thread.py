"""Hearts: threads that beat for agents, so that long work never makes an agent look dead."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from queue import Empty, SimpleQueue

from ..schema.arguments import with_checked_arguments
from ..schema.errors import AckbusError, InvalidInput
from ..schema.message.names import check_agent
from ..schema.process_table import process
from ..schema.processes import start_thread
from ..schema.queries import engine_of
from .heartbeats import BEAT_INTERVAL_S, STOPPED, WARN_AFTER_S, Heartbeats, check_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread

    from .local_bus import LocalBus

    #: The content of a beat: its status, the agent's task, and how far that is.
    BeatContent = tuple[str, str | None, float | None]

#: How long a stop waits for the last beat to be written, in seconds.
STOP_TIMEOUT_S = 0.9

_LAST: BeatContent = (STOPPED, None, None)


class Hearts:
    """Beats for any number of agents, from one thread with a connection of its own.

    A beat that can't be written is logged, and the next is tried.

    Args:
        bus: the bus where they beat.
        interval_s: how often each beats, in seconds.
    """

    def __init__(self, bus: LocalBus, *, interval_s: float = BEAT_INTERVAL_S) -> None:
        self._engine = engine_of(bus)
        self._interval_s = interval_s
        # The new status of an agent; None ends the thread.
        self._updates: SimpleQueue[tuple[str, BeatContent] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def start(self, name: str = "hearts") -> None:
        """Start the thread, under a name for people who look at threads. Hearts start once."""
        self._thread = start_thread(self._run, name)

    def beat(
        self,
        agent: str,
        status: str = "idle",
        *,
        task: str | None = None,
        progress: float | None = None,
    ) -> None:
        """Beat for an agent, at once and from now on. Never blocks on the bus.

        Raises:
            InvalidInput: a field breaks a rule.
        """
        status = check_status(agent, status, task, progress)
        self._updates.put((agent, (status, task, progress)))

    def rest(self, agent: str) -> None:
        """Write a last beat of an agent, with the status `stopped`."""
        self._updates.put((agent, _LAST))

    def stop(self) -> None:
        """Write last beats of all agents, and end the thread; returns within a second."""
        self._updates.put(None)
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        beating: dict[str, BeatContent] = {}
        due = time.monotonic() + self._interval_s
        try:
            while True:
                updates, is_end = self._wait_for_updates(due - time.monotonic())
                beating |= updates
                if is_end:
                    self._write(dict.fromkeys(beating, _LAST))
                    return
                # No update: the interval is over, and it is time to beat for all.
                self._write(updates or beating)
                if not updates:
                    due = time.monotonic() + self._interval_s
                beating = {agent: beat for agent, beat in beating.items() if beat != _LAST}
        finally:
            self._engine.close_thread()

    def _wait_for_updates(self, patience_s: float) -> tuple[dict[str, BeatContent], bool]:
        """Wait for updates; return the last of each agent, and whether the thread is to end."""
        updates: dict[str, BeatContent] = {}
        try:
            while (update := self._updates.get(timeout=max(0.0, patience_s))) is not None:
                agent, updates[agent] = update
                patience_s = 0.0
        except Empty:
            return updates, False
        return updates, True

    def _write(self, beats: dict[str, BeatContent]) -> None:
        heartbeats = Heartbeats(self._engine)
        own = None if (here := process(os.getpid())) is None else str(here)
        try:
            with self._engine.write() if len(beats) > 1 else nullcontext():
                for agent, (status, task, progress) in beats.items():
                    heartbeats.beat(agent, status, task=task, progress=progress, process=own)
        except AckbusError as error:
            import logging

            logging.getLogger("ackbus.heart").warning(
                "a beat of %s was not written: %s", ", ".join(beats), error
            )


@with_checked_arguments
class Heart:
    """Beats for one agent from its own thread.

    The first beat is at once; of several updates that wait, the last is written. Use it as a
    context manager, or call `start` and `stop`.
    """

    def __init__(self, bus: LocalBus, agent: str, *, interval_s: float = BEAT_INTERVAL_S) -> None:
        check_agent(agent)
        if not 0 < interval_s < WARN_AFTER_S:
            raise InvalidInput(f"a heart beats every 0 to {WARN_AFTER_S} s, not {interval_s}")
        self._agent = agent
        self._hearts = Hearts(bus, interval_s=interval_s)
        self.update("idle")

    def start(self) -> None:
        """Begin to beat: with status idle, unless `update` said another. A heart starts once."""
        self._hearts.start(f"heart of {self._agent}")

    def update(
        self, status: str, *, task: str | None = None, progress: float | None = None
    ) -> None:
        """Change the status of the heart, at once. Never blocks on the bus.

        Raises:
            InvalidInput: a field breaks a rule.
        """
        self._hearts.beat(self._agent, status, task=task, progress=progress)

    def stop(self) -> None:
        """Write a last beat with `stopped`, and end the thread; returns within a second."""
        self._hearts.stop()

    def __enter__(self) -> Heart:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
