"""The evidence of a torture run: the log and the histories, read once; and verdicts on them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

from .history import SIZES, agents_in, read_acts, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..bus.bus import Bus
    from ..schema.message.message import Message
    from .history import RecordedAct

# A verdict: a claim, the number of checks, and the failures.

#: How many failures of a proof are listed; further ones are only counted.
MAX_LISTED = 10


@dataclass(slots=True)
class Verdict:
    """The outcome of one proof.

    Attributes:
        name: its subject, in a word or two.
        claim: the claim.
        checked: the number of checks.
        failed: the number of failed checks.
        failures: the first failures, in words.
    """

    name: str
    claim: str
    checked: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def fail(self, text: str) -> None:
        """Note a failed check."""
        self.failed += 1
        if len(self.failures) < MAX_LISTED:
            self.failures.append(text)

    def expect(self, condition: bool, text: str) -> None:
        """Count one check, and note the text as a failure if the condition is false."""
        self.checked += 1
        if not condition:
            self.fail(text)


class LoggedMessage(NamedTuple):
    """The fields of a message that proofs need.

    Attributes:
        seq, id, from_agent, to_agent, type, in_reply_to: as in the message.
        size: how long its text is; None where it has none, or another than its id says.
        token: the token of the lease or claim under which it was written, or None.
        lease: the name of the lease, or None.
    """

    seq: int
    id: str
    from_agent: str
    to_agent: str | None
    type: str
    in_reply_to: str | None
    size: int | None
    token: int | None
    lease: str | None


@dataclass(slots=True)
class LogIndex:
    """The log, as the proofs see it.

    Attributes:
        entries: the messages, in the order in which the log gives them.
        by_id: the same by id; of several with one id the last.
        doubled: the ids that more than one message has.
    """

    entries: list[LoggedMessage] = field(default_factory=list)
    by_id: dict[str, LoggedMessage] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    _direct: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _broadcasts: list[LoggedMessage] = field(default_factory=list)

    def add(self, entry: LoggedMessage) -> None:
        """Note the next message."""
        if entry.id in self.by_id:
            self.doubled.append(entry.id)
        self.entries.append(entry)
        self.by_id[entry.id] = entry
        if entry.to_agent is None:
            self._broadcasts.append(entry)
        else:
            self._direct[entry.to_agent].append(entry.seq)

    def of_types(self, *types: str) -> Iterator[LoggedMessage]:
        """Yield the messages of some types, in order."""
        return (entry for entry in self.entries if entry.type in types)

    def mail_of(self, agent: str) -> list[int]:
        """Return the seqs of all messages to an agent, and of others' broadcasts, in order."""
        broadcasts = (entry.seq for entry in self._broadcasts if entry.from_agent != agent)
        return list(merge(self._direct.get(agent, ()), broadcasts))


class RunEvidence:
    """All evidence of a run: the log and the histories.

    Args:
        bus: the bus, which no other process uses any more.
        histories: the folder of the histories.
        messages: the whole log.
        clock_step_ns: by how much the machine's clock was set forward or back during the run.

    Attributes:
        bus, clock_step_ns: these.
        log: the messages.
        agents: the agents that have a history.
    """

    def __init__(
        self, bus: Bus, histories: str, messages: Iterable[Message], clock_step_ns: int = 0
    ) -> None:
        self.bus = bus
        self.clock_step_ns = clock_step_ns
        self.log = LogIndex()
        self._histories = histories
        self.agents = agents_in(histories)
        for message in messages:
            self.log.add(_entry(message))

    def acts(self, *kinds: str) -> Iterator[RecordedAct]:
        """Yield the acts of some kinds, agent after agent; of all kinds when none is named."""
        for agent in self.agents:
            yield from self.acts_of(agent, *kinds)

    def acts_of(self, agent: str, *kinds: str) -> Iterator[RecordedAct]:
        """Yield one agent's acts in the order in which they began."""
        return read_acts(self._histories, agent, kinds)


def _entry(message: Message) -> LoggedMessage:
    size = token = lease = None
    payload = None if message.payload_error is not None else message.payload
    if isinstance(payload, str) and len(payload) in SIZES:
        size = len(payload) if payload == text_of(message.id, len(payload)) else None
    elif isinstance(payload, dict):
        token, lease = payload.get("token"), payload.get("lease")
    return LoggedMessage(
        message.seq,
        message.id,
        message.from_agent,
        message.to_agent,
        message.type,
        message.in_reply_to,
        size,
        token,
        lease,
    )


# Order in time: an act that began after another was over must have the higher numbers.


class NumberedAct(NamedTuple):
    """An act that gave out numbers.

    Attributes:
        began_ns, ended_ns: the times before it began, and after it returned.
        low, high: the lowest and the highest of its numbers.
        who: its agent, for people.
    """

    began_ns: int
    ended_ns: int
    low: int
    high: int
    who: str


def out_of_order(acts: Iterable[NumberedAct]) -> Iterator[tuple[NumberedAct, NumberedAct]]:
    """Yield pairs of acts where the second began after the first ended, without higher numbers."""
    acts = list(acts)
    over = sorted(acts, key=lambda act: act.ended_ns)
    next_over = 0
    highest: NumberedAct | None = None
    for act in sorted(acts):
        while over[next_over].ended_ns < act.began_ns:
            if highest is None or over[next_over].high > highest.high:
                highest = over[next_over]
            next_over += 1
        if highest is not None and highest.high >= act.low:
            yield highest, act


class HighestKnown:
    """The highest number that any process knew, at any moment.

    Args:
        acts: the acts that gave out numbers.
    """

    def __init__(self, acts: Iterable[NumberedAct]) -> None:
        over = sorted((act.ended_ns, act.high) for act in acts)
        self._ended_ns = [ended_ns for ended_ns, _ in over]
        self._highest = list(accumulate((high for _, high in over), max))

    def at(self, moment_ns: int) -> int:
        """Return the highest number that a process knew before a moment; 0 for none."""
        count = bisect_left(self._ended_ns, moment_ns)
        return self._highest[count - 1] if count else 0
