"""The hearts of many agents in one thread, for a program that acts for many agents."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue

from ..schema import AckbusError, start_thread
from .heartbeats import BEAT_INTERVAL_S, STOP_TIMEOUT_S, STOPPED, Heartbeats, check_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database

#: The content of a beat: its status, and the agent's task.
_Says = tuple[str, "str | None"]

_LAST: _Says = (STOPPED, None)


class Hearts:
    """Beats for any number of agents, as `Heart` does for one, with one thread and connection.

    Args:
        database: where they beat.
        interval_s: how often each beats, in seconds.
    """

    def __init__(self, database: Database, *, interval_s: float = BEAT_INTERVAL_S) -> None:
        self._database = database
        self._interval_s = interval_s
        # The new status of an agent; None ends the thread.
        self._said: SimpleQueue[tuple[str, _Says] | None] = SimpleQueue()
        self._thread = start_thread(self._run, "hearts")

    def beat(self, agent: str, status: str = "idle", *, task: str | None = None) -> None:
        """Beat for an agent, at once and from now on. Never blocks on the bus.

        Raises:
            InvalidInput: a field breaks a rule.
        """
        self._said.put((agent, (check_status(agent, status, task, None), task)))

    def rest(self, agent: str) -> None:
        """Write a last beat of an agent, with the status `stopped`."""
        self._said.put((agent, _LAST))

    def stop(self) -> None:
        """Write last beats of all agents, and end the thread; returns within a second."""
        self._said.put(None)
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        beating: dict[str, _Says] = {}
        due = time.monotonic() + self._interval_s
        try:
            while True:
                left = due - time.monotonic()
                if left <= 0:
                    self._write(beating)
                    due = time.monotonic() + self._interval_s
                    continue
                try:
                    said = self._said.get(timeout=left)
                except Empty:
                    continue
                if said is None:
                    self._write(dict.fromkeys(beating, _LAST))
                    return
                agent, says = said
                self._write({agent: says})
                if says == _LAST:
                    beating.pop(agent, None)
                else:
                    beating[agent] = says
        finally:
            self._database.close_thread()

    def _write(self, beats: dict[str, _Says]) -> None:
        heartbeats = Heartbeats(self._database)
        try:
            with self._database.write():
                for agent, (status, task) in beats.items():
                    heartbeats.beat(agent, status, task=task)
        except AckbusError as error:
            import logging

            logging.getLogger("ackbus.heart").warning(
                "%d beats were not written: %s", len(beats), error
            )
