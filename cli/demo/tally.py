"""What the demo sees while it runs: counts of the messages that have gone by."""

from __future__ import annotations

import time
from collections import Counter, deque

from .protocol import (
    COORDINATOR,
    RESULTS,
    RUN_FINISHED,
    TASK_ASSIGN,
    TASK_HELD,
    TASKS_ASSIGNED,
    WORKER_KILLED,
    WORKERS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus import Bus
    from ...schema import Message

#: Over how long the messages a second are measured, in seconds.
RATE_OVER_S = 1.0


class Tally:
    """Reads the log as it grows. It is for the view alone: the proof reads the log again.

    Attributes:
        tasks: how many tasks have been assigned so far.
        all_assigned: the message that says that these are all, or None.
        held: the message of the worker that holds still to be killed, or None.
        killed: the name of the worker that was killed, or None.
        finished: whether the coordinator has every result.
        results: how many results each worker has published.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.tasks = 0
        self.all_assigned: Message | None = None
        self.held: Message | None = None
        self.killed: str | None = None
        self.finished = False
        self.results = Counter[str]()
        self._seen_seq = 0
        self._history: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def read_on(self) -> None:
        """Count what has been published since the last call."""
        newest = self.bus.log.newest_seq()
        for message in self.bus.read(from_seq=self._seen_seq + 1, to_seq=newest):
            self._count(message)
        self._seen_seq = newest
        now = time.monotonic()
        self._history.append((now, newest))
        while now - self._history[0][0] > RATE_OVER_S and len(self._history) > 2:
            self._history.popleft()

    @property
    def reported(self) -> int:
        """How many results have been published."""
        return self.results.total()

    @property
    def messages_per_s(self) -> float:
        """How many messages a second went by of late."""
        (start, before), (end, after) = self._history[0], self._history[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def agents(self) -> list[tuple[str, str, str, int]]:
        """Return name, state, task and number of results of each agent of the demo."""
        rows = []
        for beat in self.bus.heartbeats.list():
            if beat.agent in (COORDINATOR, *WORKERS):
                state = beat.status
                if beat.agent == self.killed:
                    state = "killed"
                elif beat.liveness != beat.status:
                    state = f"{beat.status}, {beat.liveness}"
                rows.append((beat.agent, state, beat.task or "", self.results[beat.agent]))
        return rows

    def _count(self, message: Message) -> None:
        if message.type == TASK_ASSIGN:
            self.tasks += 1
        elif message.type in RESULTS:
            self.results[message.from_agent] += 1
        elif message.type == TASKS_ASSIGNED:
            self.all_assigned = message
        elif message.type == TASK_HELD:
            self.held = message
        elif message.type == WORKER_KILLED:
            self.killed = message.payload["agent"]
        elif message.type == RUN_FINISHED:
            self.finished = True
