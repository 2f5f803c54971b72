"""A snapshot of a bus for the view, with its rates."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from ...bus.heartbeats import Heartbeat
from ...bus.local_bus import LocalBus
from ...schema.message.message import Message
from ...schema.message.times import age, format_ts
from ...subscribers.inboxes.failed_deliveries import Cursors
from ...subscribers.inboxes.session_names import SessionNames
from ...subscribers.jobs.json_records import state_of
from ...subscribers.overview.agents import unread_of
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.queues.statistics import QueueStats
from ..show.jobs import duration, rate
from ..show.output import message_parts
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..show.text import Parts

#: Unread messages are counted up to this: a moment's look must cost little.
_COUNTED = 100

#: How many agents are looked at, and how many messages; no terminal shows more.
_AGENTS, _MESSAGES = 50, 50

#: The windows of the rate of messages and of the rate of the queues' attempts, in seconds.
_RATE_S, _QUEUES_S = 10.0, 60.0

#: The fields of the last beat that JSON shows.
_BEAT_FIELDS = ("liveness", "status", "task", "age_s")

AGENT_HEADINGS = ("agent", "liveness", "status", "unread", "age", "task")
QUEUE_HEADINGS = (
    *("queue", "state", "waiting", "oldest", "delayed", "running", "longest", "dead", "rate"),
)


@dataclass(frozen=True)
class AgentRow:
    """One agent: its last beat, if it ever beat, its unread messages, and whose session it is."""

    name: str
    beat: Heartbeat | None
    unread: int | None
    session_of: str | None = None

    def row(self) -> tuple[object, ...]:
        """Return it as a row of the table."""
        unread = f"{_COUNTED}+" if self.unread == _COUNTED else self.unread
        base = self.session_of
        name = self.name if base is None else f"{self.name} (session of {base})"
        if self.beat is None:
            return (name, None, None, unread, None, None)
        beat = self.beat
        last_beat = age(beat.age_s)
        return (name, beat.liveness.value, beat.status, unread, last_beat, beat.task)

    def record(self) -> dict[str, object]:
        """Return it as JSON shows it."""
        record: dict[str, object] = {"agent": self.name, "unread": self.unread}
        beat = {} if self.beat is None else self.beat.record()
        return record | {name: beat[name] for name in _BEAT_FIELDS if name in beat}


@dataclass(frozen=True)
class BusSnapshot:
    """A bus at one moment.

    Attributes:
        directory: the bus.
        at_ms: the moment, in epoch milliseconds.
        newest_seq: the newest seq of its log.
        per_s: the recent rate of messages, per second; None at the first look.
        agents: the agents that were seen last, the latest first.
        queues: the queues, by name.
        messages: the newest messages, the oldest of them first, with the parts of their lines.
    """

    directory: str
    at_ms: int
    newest_seq: int
    per_s: float | None
    agents: list[AgentRow]
    queues: list[QueueStats]
    messages: list[tuple[Message, Parts]]

    def headline(self) -> str:
        """Return the first line of the view."""
        per_s = "" if self.per_s is None else f", {self.per_s:,.1f} messages/s"
        count = counted(self.newest_seq, "message")
        return f"{format_ts(self.at_ms)}  {count}{per_s}  {self.directory}"

    def queue_rows(self) -> list[tuple[object, ...]]:
        """Return the queues as rows of the table."""
        return [
            (
                *(stats.info.name, state_of(stats)),
                *(stats.waiting, duration(stats.oldest_wait_ms), stats.delayed),
                *(stats.running, duration(stats.longest_run_ms), stats.dead),
                rate(stats.rate_per_s),
            )
            for stats in self.queues
        ]

    def record(self) -> dict[str, object]:
        """Return it as JSON shows it; messages without their payloads."""
        queues = [
            {"queue": stats.info.name, "state": state_of(stats)}
            | {name: getattr(stats, name) for name in ("waiting", "delayed", "running", "dead")}
            | {name: getattr(stats, name) for name in ("oldest_wait_ms", "longest_run_ms")}
            | {"rate_per_s": round(stats.rate_per_s, 3)}
            for stats in self.queues
        ]
        messages = [
            {"seq": m.seq, "id": m.id, "from": m.from_agent, "to": m.to_agent, "type": m.type}
            for m, _ in self.messages
        ]
        return {
            "at": format_ts(self.at_ms),
            "newest_seq": self.newest_seq,
            "messages_per_s": None if self.per_s is None else round(self.per_s, 1),
            "agents": [agent.record() for agent in self.agents],
            "queues": queues,
            "messages": messages,
        }


class Watcher:
    """Takes snapshots of a bus, and keeps the earlier counts that the rate needs."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._seqs: deque[tuple[float, int]] = deque()

    def look(self) -> BusSnapshot:
        """Return a snapshot of the bus."""
        bus = self._bus
        newest = bus.log.newest_seq()
        return BusSnapshot(
            directory=bus.layout.directory,
            at_ms=bus.now_ms(),
            newest_seq=newest,
            per_s=self._per_s(newest),
            agents=self._agents(),
            queues=[
                QueueStats.of(Queue(bus, info), window_s=_QUEUES_S) for info in Queues(bus).list()
            ],
            messages=[
                (message, message_parts(message, bus.blobs))
                for message in bus.log.newest(_MESSAGES)
            ],
        )

    def _per_s(self, newest: int) -> float | None:
        now = time.monotonic()
        self._seqs.append((now, newest))
        while len(self._seqs) > 2 and self._seqs[1][0] <= now - _RATE_S:
            self._seqs.popleft()
        then, before = self._seqs[0]
        return (newest - before) / (now - then) if now > then else None

    def _agents(self) -> list[AgentRow]:
        """Return the agents that beat or acknowledge, the latest first.

        Agents that only ever sent are left out: finding them takes a walk through the log.
        """
        beats = {beat.agent: beat for beat in self._bus.heartbeats.list()}
        seen_ms = {name: at_ms for name, (_, at_ms) in Cursors.of(self._bus).seen().items()}
        for name, beat in beats.items():
            seen_ms[name] = max(seen_ms.get(name, 0), beat.ts_ms)
        lately = sorted(seen_ms, key=lambda name: (-seen_ms[name], name))[:_AGENTS]
        bases = SessionNames.of(self._bus).bases()
        return [
            AgentRow(name, beats.get(name), unread_of(self._bus, name, _COUNTED), bases.get(name))
            for name in lately
        ]
