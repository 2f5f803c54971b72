"""Views of a message: its causes and consequences, receipts, and notices."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...bus.errors import SegmentMissing
from ...bus.log.log import find_message, near_ids
from ...schema.arguments import checked, with_checked_arguments
from ...schema.errors import NotFound
from ...schema.message.names import seq_in
from ...schema.message.patterns import TypePattern
from ...schema.message.reply_types import request_type_of
from ...schema.paging import further
from ...schema.queries import engine_of
from ..inboxes.failed_deliveries import Cursors
from ..inboxes.statements import SESSION_NEWS
from ..jobs.claims import Claims
from ..jobs.jobs import Jobs
from ..jobs.outcomes import ManualActs
from ..jobs.policy import ANYBODY
from ..jobs.statements import SQL
from ..queues.queues import Queues
from .retention import INBOX, QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ..jobs.claims import ClaimRecord
    from ..jobs.jobs import Job
    from ..jobs.outcomes import Act
    from ..queues.queues import QueueInfo

#: How a claim is called where ids of several kinds may stand: `claim:17`.
CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Work:
    """A message's job in a queue, with its claims.

    Attributes:
        job: its state there.
        claims: every attempt, in order.
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
    """A message with its causes and its consequences.

    Attributes:
        seq: the message that the key names: of a job or a claim its message, of a conversation the
            first.
        conversations: the conversations that led to the message, its own first.
        steps: all messages of these conversations, each after the message that it answers.
    """

    seq: int
    conversations: list[str]
    steps: list[Step]

    @classmethod
    def of(cls, bus: LocalBus, key: str) -> Trace:
        """Trace what a name stands for: up to where it began, and down to all that followed.

        What has been published in the conversation as the answer to a message counts as following
        it, and so does an answer in another conversation on the way up.

        Args:
            bus: an open bus.
            key: the seq or id of a message, a conversation, `claim:TOKEN`, or `QUEUE:SEQ`.

        Raises:
            NotFound: the key stands for nothing in this bus.
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

    def __init__(self, bus: LocalBus) -> None:
        self._jobs = Jobs.of(bus)
        self._claims = Claims.of(bus)
        self._queues = Queues(bus)
        self._acts = ManualActs.of(bus)

    def of(self, seq: int) -> list[Work]:
        """Return what became of a message, by queue. A queue that has not looked has nothing."""
        return [self._work(job) for job in self._jobs.of_message(seq)]

    def _work(self, job: Job) -> Work:
        info = self._queues.get(job.queue)
        claims, acts = self._claims.of_job(info, job.seq), self._acts.of_job(info, job.seq)
        return Work(job, claims, acts)


def _start(bus: LocalBus, key: str) -> Message:
    """Return the message at which a trace starts."""
    message = find_message(bus, key) or next(bus.read(conversation=key), None)
    if message is None:
        seq = _seq_of_work(bus, key)
        message = None if seq is None else bus.get(seq)
    if message is None:
        raise NotFound(
            f"nothing in the bus is called {key!a}{near_ids(bus, key)}; give the id or seq of a"
            " message,"
            f" a conversation, {CLAIM}:TOKEN, or QUEUE:SEQ"
        )
    return message


def _seq_of_work(bus: LocalBus, key: str) -> int | None:
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


def _conversations(bus: LocalBus, message: Message) -> list[str]:
    """Return the conversations that a message is in and that led to it."""
    names = {message.conversation: None}
    cause: Message | None = message
    while cause is not None:
        names[cause.conversation] = None
        cause = _cause_of(bus, cause)
    return list(names)


def _cause_of(bus: LocalBus, message: Message) -> Message | None:
    """Return the message that a message answers, else the first of its conversation, if older."""
    parent = None if message.in_reply_to is None else bus.get(message.in_reply_to)
    if parent is None:
        parent = next(bus.read(conversation=message.conversation), None)
    return parent if parent is not None and parent.seq < message.seq else None


def _tree(messages: Iterable[Message]) -> Iterator[tuple[Message, int]]:
    """Yield messages, given in order, each after the message that it answers, with its depth.

    Without recursion: two agents may have answered each other a thousand times.
    """
    answers: dict[str | None, list[Message]] = {None: []}
    for message in messages:
        # A message answers only earlier ones: a program with its own SQL may have made a circle.
        parent = message.in_reply_to if message.in_reply_to in answers else None
        answers[parent].append(message)
        answers[message.id] = []
    stack = [(message, 0) for message in reversed(answers[None])]
    while stack:
        message, depth = stack.pop()
        yield message, depth
        stack += [(answer, depth + 1) for answer in reversed(answers[message.id])]


# Read receipts: the state of a message at each of its readers. No message is sent for them.


@dataclass(frozen=True, slots=True)
class ReadReceipt:
    """The state of a message at a reader.

    Attributes:
        kind: `inbox` or `queue`.
        name: the agent, or the queue.
        state: in an inbox a `ReadState`: `unread`, `acknowledged`, `parked`, `received` or
            `passed_over`; in a queue the `JobState` of its job.
    """

    kind: str
    name: str
    state: str

    def record(self) -> dict[str, str]:
        """Return its JSON object."""
        return {"kind": self.kind, "name": self.name, "state": self.state}


@checked
def read_receipts(bus: LocalBus, key: int | str) -> list[ReadReceipt]:
    """Return the state of a message at each reader: inboxes by name, then queues.

    Readers are its recipient; of a broadcast, all agents with a cursor that want it; and the queues
    that take it in. A message that a cursor has passed counts as acknowledged, read or not.

    Args:
        bus: an open bus.
        key: the seq or id of a message, also an archived message.

    Raises:
        NotFound: there is no such message.
    """
    message = find_message(bus, str(key))
    if message is None:
        hint = near_ids(bus, str(key))
        raise NotFound(f"no message {str(key)[:255]!a} in the log{hint}; see 'bus read'")
    queues = list(_in_queues(bus, message))
    return [*_in_inboxes(bus, message, queues), *queues]


def _in_inboxes(
    bus: LocalBus, message: Message, queues: list[ReadReceipt]
) -> Iterator[ReadReceipt]:
    is_work = bus.log.is_work(message.seq)
    if is_work is None:  # it is archived: its queues, as they are now, decide
        policies = [Queues(bus).get(receipt.name).policy for receipt in queues]
        is_work = any(
            policy.hides != "none" and message.to_agent in (None, policy.addressed)
            for policy in policies
        )
    if is_work or (message.to_agent is None and message.type in SESSION_NEWS):
        return
    states = Cursors.of(bus).read_states(
        message.seq, message.type, message.from_agent, message.to_agent
    )
    for agent, state in states:
        yield ReadReceipt(INBOX, agent, state)


def _in_queues(bus: LocalBus, message: Message) -> Iterator[ReadReceipt]:
    states = {job.queue: job.state for job in Jobs.of(bus).of_message(message.seq)}
    for info in Queues(bus).list():
        if info.name in states or _is_to_take(info, message):
            yield ReadReceipt(QUEUE, info.name, states.get(info.name, "queued"))


def _is_to_take(info: QueueInfo, message: Message) -> bool:
    """Whether a queue has yet to look at a message that it takes in."""
    return (
        info.filled_seq < message.seq
        and TypePattern(info.pattern).matches(message.type)
        and (message.to_agent is None or info.policy.addressed in (message.to_agent, ANYBODY))
    )


# Notices: the answers that people were notified of. Derived from the log.

_log = logging.getLogger("ackbus.notices")

#: How many conversations without a request are remembered, so that each of their messages is
#: looked at once.
_REMEMBERED = 10_000


class Notices:
    """The tables `notices` and `notice_state`: the notices given, and how far the log was read.

    Any number of processes may look for news; together they give one notice for each conversation.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._engine = engine_of(bus)
        #: By conversation and type: up to which seq there is no request of the type.
        self._unasked: dict[tuple[str, str], int] = {}

    @property
    def position(self) -> int:
        """The seq up to which the log was read; 0 before the first look."""
        seq: int = self._engine.one_number(SQL["notice_position"], "notice_state")
        return seq

    def news(self, *, first_since_ms: int) -> Iterator[Message]:
        """Yield the first new answer in each conversation without a notice.

        A notice is recorded, in a transaction of its own, before its answer is yielded: so it is
        given at most once. A process that dies in between leaves a notice out, which is better than
        many notices twice: the answer itself waits in the log.

        Each call reads the messages since the last call, so that its cost does not depend on the
        length of the log.

        Args:
            first_since_ms: on the very first look at a bus, only answers of this epoch
                millisecond or later are news.
        """
        after, newest = self.position, self._bus.log.newest_seq()
        if newest == after:
            return
        since_ms = None if after else first_since_ms
        for message in self._read(after, newest, since_ms):
            if self._is_news(message) and self._note(message):
                yield message
        self._engine.change(SQL["advance_notices"], (newest,))

    def _read(self, after: int, newest: int, since_ms: int | None) -> Iterator[Message]:
        """Yield a range of the log; lost parts of the archive are logged, and left out for good."""
        while True:
            try:
                yield from self._bus.read(after_seq=after, upto_seq=newest, since_ms=since_ms)
                return
            except SegmentMissing as lost:
                _log.warning("no notices of answers there: %s", lost)
                after = further("messages of the archive", after, lost.last_seq)

    def _is_news(self, message: Message) -> bool:
        """Return whether a message answers a request, and its conversation has no notice yet."""
        request_type = request_type_of(message.type)
        if request_type is None:
            return False
        key = (message.conversation, request_type)
        after = self._unasked.get(key, 0)
        if self._engine.value(SQL["is_news"], (*key, after, message.seq)):
            return True
        if self._was_asked_in_archive(*key, message):
            return True
        if len(self._unasked) >= _REMEMBERED:
            self._unasked.clear()
        self._unasked[key] = message.seq
        return False

    def _was_asked_in_archive(self, conversation: str, request_type: str, answer: Message) -> bool:
        """Whether the answered request is archived, by the parent that the answer names."""
        if self._engine.value(SQL["is_told"], (conversation,)) or answer.in_reply_to is None:
            return False
        try:
            request = self._bus.get(answer.in_reply_to)
        except SegmentMissing:  # the request is archived: the answer's type says that it was one
            return True
        return request is not None and (request.type, request.conversation) == (
            request_type,
            conversation,
        )

    def _note(self, message: Message) -> bool:
        """Record the notice of a conversation; return False if another process has done so."""
        values = (message.conversation, message.seq, self._engine.now_ms())
        return bool(self._engine.change(SQL["add_notice"], values))
