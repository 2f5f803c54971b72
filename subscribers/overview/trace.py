"""Traces: the causes and the consequences of a message."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus.log.finding import find_message
from ...schema.arguments import with_checked_arguments
from ...schema.errors import NotFound
from ...schema.message.seqs import seq_in
from ..jobs.claims import Claims
from ..jobs.jobs import Jobs
from ..jobs.manual_acts import Acts
from ..queues.queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..jobs.claims import ClaimRecord
    from ..jobs.jobs import Job
    from ..jobs.manual_acts import Act

#: How a claim is called where ids of several kinds may stand: `claim:17`.
CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Work:
    """A message's job in one queue, with its claims.

    Attributes:
        job: its state there.
        claims: every attempt, the first first.
        acts: the acts of people on it, in order.
    """

    job: Job
    claims: list[ClaimRecord]
    acts: list[Act]


@dataclass(frozen=True, slots=True)
class Step:
    """A message of a trace.

    Attributes:
        message: the message.
        depth: how many messages of the trace it answers, directly or through others.
        work: what became of it in each queue.
    """

    message: Message
    depth: int
    work: list[Work]


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class Trace:
    """A message with all that it belongs to.

    Attributes:
        seq: the message that was asked for, or that of the job or claim; of a conversation the
            first one.
        conversations: the conversations on the way to it, its own first.
        steps: all their messages, each after the one that it answers.
    """

    seq: int
    conversations: list[str]
    steps: list[Step]

    @classmethod
    def of(cls, bus: Bus, key: str) -> Trace:
        """Trace what a name stands for: up to where it began, and down to all that followed.

        What has been published in the conversation as the answer to a message counts as following
        it, and so does an answer in another conversation on the way up.

        Args:
            bus: an open bus.
            key: the seq or id of a message, a conversation, `claim:TOKEN`, or `QUEUE:SEQ`.

        Raises:
            NotFound: it stands for nothing in this bus.
        """
        start = _start(bus, key)
        conversations = _conversations(bus, start)
        messages = [m for name in conversations for m in bus.read(conversation=name)]
        messages.sort(key=lambda message: message.seq)
        history = WorkHistory(bus)
        steps = [Step(m, depth, history.of(m.seq)) for m, depth in _tree(messages)]
        return cls(start.seq, conversations, steps)


class WorkHistory:
    """Reads what became of messages in the queues of a bus. Changes nothing."""

    def __init__(self, bus: Bus) -> None:
        self._jobs = Jobs.of(bus)
        self._claims = Claims.of(bus)
        self._queues = Queues(bus)
        self._acts = Acts.of(bus)

    def of(self, seq: int) -> list[Work]:
        """Return what became of a message, by queue. A queue that has not looked has nothing."""
        return [self._work(job) for job in self._jobs.of_message(seq)]

    def _work(self, job: Job) -> Work:
        info = self._queues.get(job.queue)
        claims, acts = self._claims.of_job(info, job.seq), self._acts.of_job(info, job.seq)
        return Work(job, claims, acts)


def _start(bus: Bus, key: str) -> Message:
    """Return the message at which a trace starts."""
    found = find_message(bus, key) or next(bus.read(conversation=key), None)
    if found is None:
        seq = _seq_of_work(bus, key)
        found = None if seq is None else bus.get(seq)
    if found is None:
        raise NotFound(
            f"nothing in the bus is called {key!a}; give the id or seq of a message,"
            f" a conversation, {CLAIM}:TOKEN, or QUEUE:SEQ"
        )
    return found


def _seq_of_work(bus: Bus, key: str) -> int | None:
    """Return the message that a claim or a job is about, or None when there is none."""
    name, colon, digits = key.rpartition(":")
    number = seq_in(digits)
    if not colon or number is None:
        return None
    if name == CLAIM:
        claim = Claims.of(bus).get(number)
        return None if claim is None else claim.seq
    is_job = any(job.queue == name for job in Jobs.of(bus).of_message(number))
    return number if is_job else None


def _conversations(bus: Bus, message: Message) -> list[str]:
    """Return the conversations that a message is in and that led to it."""
    names = {message.conversation: None}
    before: Message | None = message
    while before is not None:
        names[before.conversation] = None
        before = _before(bus, before)
    return list(names)


def _before(bus: Bus, message: Message) -> Message | None:
    """Return the message that one answers, else the first of its conversation, if it is older."""
    parent = None if message.in_reply_to is None else bus.get(message.in_reply_to)
    if parent is None:
        parent = next(bus.read(conversation=message.conversation), None)
    return parent if parent is not None and parent.seq < message.seq else None


def _tree(messages: Iterable[Message]) -> Iterator[tuple[Message, int]]:
    """Yield messages, which come in order, each after the one that it answers, with its depth.

    Without recursion: two agents may have answered each other a thousand times.
    """
    answers: dict[str | None, list[Message]] = {None: []}
    for message in messages:
        # Only to what came before: a program with its own SQL may have made a circle.
        parent = message.in_reply_to if message.in_reply_to in answers else None
        answers[parent].append(message)
        answers[message.id] = []
    left = [(message, 0) for message in reversed(answers[None])]
    while left:
        message, depth = left.pop()
        yield message, depth
        left += [(answer, depth + 1) for answer in reversed(answers[message.id])]
