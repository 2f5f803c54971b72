"""Counts of the messages so far, for the view of a running demo."""

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
    from ..bus.bus import Bus
    from ..schema.message.message import Message

#: The period over which the rate of messages is measured, in seconds.
RATE_OVER_S = 1.0


class Tally:
    """Reads the log as it grows. It is for the view alone: the proof reads the log again.

    Attributes:
        tasks: how many tasks have been assigned so far.
        all_assigned: the message that says that these are all, or None.
        held: the message of the worker that holds still to be killed, or None.
        killing: the message about the worker that was killed, or None.
        taken_over: whether the task of that worker has its result.
        finished: whether the coordinator has every result.
        results: how many results each worker has published.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.tasks = 0
        self.all_assigned: Message | None = None
        self.held: Message | None = None
        self.killing: Message | None = None
        self.taken_over = False
        self.finished = False
        self.results = Counter[str]()
        self._seen_seq = 0
        self._began = time.monotonic()
        self._history: deque[tuple[float, int]] = deque([(self._began, 0)])

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
        """The number of published results."""
        return self.results.total()

    @property
    def waits_for_lease(self) -> bool:
        """Whether only the task whose lease the killed worker held is left."""
        last = self.reported == self.tasks - 1
        return last and self.killing is not None and not self.taken_over

    @property
    def lease_left_s(self) -> float:
        """The time left of the killed worker's lease, in seconds; 0 when it has ended."""
        assert self.killing is not None
        left_ms: int = self.killing.payload["until_ms"] - self.bus.now_ms()
        return max(0, left_ms) / 1000

    @property
    def average_messages_per_s(self) -> float:
        """The rate of messages since the beginning, per second."""
        now, newest = self._history[-1]
        return newest / (now - self._began) if now > self._began else 0.0

    @property
    def messages_per_s(self) -> float:
        """The recent rate of messages, per second."""
        (start, before), (end, after) = self._history[0], self._history[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def agents(self) -> list[tuple[str, str, str, int]]:
        """Return name, state, task and number of results of each agent of the demo."""
        rows = []
        for beat in self.bus.heartbeats.list():
            if beat.agent in (COORDINATOR, *WORKERS):
                state, task = beat.status, beat.task or ""
                if self.killing is not None and beat.agent == self.killing.payload["agent"]:
                    # Its last beat is older than its last lease: beats are only now and then.
                    state, task = "killed", self.killing.payload["path"]
                elif beat.liveness != beat.status:
                    state = f"{beat.status}, {beat.liveness}"
                rows.append((beat.agent, state, task, self.results[beat.agent]))
        return rows

    def _count(self, message: Message) -> None:
        if message.type == TASK_ASSIGN:
            self.tasks += 1
        elif message.type in RESULTS:
            self.results[message.from_agent] += 1
            if self.killing is not None and message.in_reply_to == self.killing.payload["task"]:
                self.taken_over = True
        elif message.type == TASKS_ASSIGNED:
            self.all_assigned = message
        elif message.type == TASK_HELD:
            self.held = message
        elif message.type == WORKER_KILLED:
            self.killing = message
        elif message.type == RUN_FINISHED:
            self.finished = True
