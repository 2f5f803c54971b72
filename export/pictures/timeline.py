"""The data of a time line: the presence of agents, and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ...schema.message.times import format_ts
from .traffic import lanes
from .words import plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...bus.presence.heartbeats import Heartbeat
    from .traffic import Traffic

#: A pause is cut out when it is so many times as long as the shorter ones are on the average…
_TIMES_THE_REST = 10

#: …and would take at least this part of the axis; at most so many of them.
_PART_OF_AXIS, _MAX_PAUSES = 1 / 15, 12


@dataclass(frozen=True, slots=True)
class Presence:
    """The time in which an agent left traces: messages that it sent, and its last heartbeat.

    Attributes:
        agent: its name.
        first_ms, last_ms: its first and last trace.
        stopped: whether that heartbeat said that it had stopped.
    """

    agent: str
    first_ms: int
    last_ms: int
    stopped: bool = False

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        first, last = format_ts(self.first_ms), format_ts(self.last_ms)
        return {"agent": self.agent, "first": first, "last": last, "stopped": self.stopped}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Messages on a time axis.

    Attributes:
        traffic: the messages, at least one.
        presences: the present agents, in order of appearance; mere recipients are left out.
        pauses: the pauses that the axis leaves out, from and to, in order.
    """

    traffic: Traffic
    presences: tuple[Presence, ...]
    pauses: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, traffic: Traffic, beats: Iterable[Heartbeat] = ()) -> Timeline:
        """Return the time line of messages.

        Args:
            traffic: at least one message.
            beats: the last heartbeats of agents. One from before the first message is left out.
        """
        start = min(arrow.ts_ms for arrow in traffic.arrows)
        found: dict[str, Presence] = {}
        for arrow in traffic.arrows:
            _extend(found, arrow.sender, arrow.ts_ms)
        for beat in beats:
            if beat.ts_ms >= start:
                _extend(found, plain_name(beat.agent), beat.ts_ms, beat.status == "stopped")
        moments = [arrow.ts_ms for arrow in traffic.arrows]
        moments += [presence.last_ms for presence in found.values()]
        return cls(traffic, tuple(found.values()), tuple(pauses(moments)))

    @property
    def lanes(self) -> list[str | None]:
        """The agents in order of appearance, and None at the end for broadcasts."""
        there = [presence.agent for presence in self.presences]
        agents = list(dict.fromkeys([*self.traffic.agents, *there]))
        return lanes(agents, None in self.traffic.lanes)

    @property
    def first_ms(self) -> int:
        """When the axis begins."""
        return min(arrow.ts_ms for arrow in self.traffic.arrows)

    @property
    def last_ms(self) -> int:
        """When the axis ends."""
        ends = [presence.last_ms for presence in self.presences]
        return max([*ends, *(arrow.ts_ms for arrow in self.traffic.arrows)])

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        return {
            **self.traffic.record(),
            "presences": [presence.record() for presence in self.presences],
            "pauses": [{"from": format_ts(a), "to": format_ts(b)} for a, b in self.pauses],
        }


def pauses(moments: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pauses between moments that are far longer than the others, in order.

    The longest is looked at first, against those that are shorter, and so on until one is not
    far longer; so a week that has three days of work keeps the pauses within a day.
    """
    gaps = sorted(pairwise(sorted(set(moments))), key=lambda gap: (gap[0] - gap[1], gap[0]))
    left = sum(end - start for start, end in gaps)
    found: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(gaps[:_MAX_PAUSES], 1):
        long = end - start
        rest = left - long
        shorter = len(gaps) - number
        is_far_longer = shorter and long * shorter > _TIMES_THE_REST * rest
        if not is_far_longer or long < _PART_OF_AXIS * left:
            break
        found.append((start, end))
        left = rest
    return sorted(found)


def _extend(found: dict[str, Presence], agent: str, ts_ms: int, stopped: bool = False) -> None:
    """Take in one more trace of an agent."""
    before = found.get(agent, Presence(agent, ts_ms, ts_ms))
    first, last = min(before.first_ms, ts_ms), max(before.last_ms, ts_ms)
    found[agent] = Presence(agent, first, last, stopped and ts_ms == last)
