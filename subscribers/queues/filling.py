"""Filling a queue: messages of its types become jobs, when a worker asks for work.

Publishers pay nothing for queues. A claim reads the log from the queue's position on, and makes
jobs of matching messages. Only a match, or a long way without one, is written down.

A queue whose jobs are acted upon believes no message: a step with the right makes its jobs, in the
transaction that publishes them. What else has come is noted as cancelled, and nothing acts upon it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from ...bus.errors import SegmentMissing
from ...schema.errors import BusUnusable
from ...schema.message.message import Message
from ...schema.message.patterns import TypePattern
from ...schema.queries import engine_of
from ..jobs.errors import QueueStuck
from ..jobs.work_headers import WorkHeaders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ...bus.bus import Bus
    from ..jobs.jobs import Jobs
    from .queues import QueueInfo, Queues

#: How many messages become jobs in one transaction: a few milliseconds.
PAGE_JOBS = 500

#: How many messages without a match a filler reads before it stores its position, so that the next
#: process need not read them again.
STORE_AFTER = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """The matches of one look at the log.

    Attributes:
        base: the stored position when it began.
        upto: the seq up to which it looked.
        messages: the matching messages, in order.
    """

    base: int
    upto: int
    messages: list[Message]

    @property
    def is_full(self) -> bool:
        """Whether there may be more behind it."""
        return len(self.messages) == PAGE_JOBS


class Filler:
    """Brings the messages of the log into one queue, each once."""

    def __init__(self, bus: Bus, info: QueueInfo, queues: Queues, jobs: Jobs) -> None:
        self._bus = bus
        self._queue_id = info.id
        self._name = info.name
        self._pattern = TypePattern(info.pattern)
        #: The queue's rules, as last read.
        self.policy = info.policy
        self._queues = queues
        self._jobs = jobs
        # How far this process has looked without a find, beyond the stored position.
        self._looked_upto = 0
        # The messages of the last page, by seq: most of them are claimed soon, and by this process.
        self._read: dict[int, Message] = {}

    def look(self) -> Page | None:
        """Look for messages that are not jobs yet; None when there are none. Writes no job.

        Raises:
            QueueStuck: there are none before a part of the archive that is lost.
        """
        base, newest = self._queues.position(self._queue_id)
        after = max(base, self._looked_upto)
        if newest <= after:
            return None
        stuck = None
        try:
            messages = self._matching(after, newest)
        except SegmentMissing as lost:
            stuck = QueueStuck(self._name, lost)
            newest = max(after, lost.first_seq - 1)
            messages = self._matching(after, newest)
        is_final = not engine_of(self._bus).writing  # a transaction's own messages may be undone
        self._read = {message.seq: message for message in messages} if is_final else {}
        if messages:
            upto = messages[-1].seq if len(messages) == PAGE_JOBS else newest
            return Page(base, upto, messages)
        if is_final:
            self._looked_upto = newest
        if newest - base > STORE_AFTER:
            self._queues.pass_by(self._queue_id, base, newest)
        if stuck is not None:
            raise stuck
        return None

    def _matching(self, after: int, newest: int) -> list[Message]:
        """Return up to a page of messages that fit. What has just come is read without detours."""
        if newest - after <= PAGE_JOBS:
            recent = self._bus.log.between(after, newest, pattern=self._pattern)
            return list(filter(self._takes, recent))
        found = self._bus.log.read(after_seq=after, upto_seq=newest, type=self._pattern.text)
        return list(islice(filter(self._takes, found), PAGE_JOBS))

    def _takes(self, message: Message) -> bool:
        return self.policy.takes(message.to_agent)

    def store(self, page: Page, info: QueueInfo, proven: Collection[int] = frozenset()) -> None:
        """Make jobs of a page, unless another filler has; in the open transaction.

        A request that is a duplicate is answered: no worker will get it.

        Args:
            page: the result of `look`.
            info: the queue, as it was read in this transaction.
            proven: of a queue whose jobs are acted upon: the seqs of the messages that the caller
                published in this transaction, by its right.
        """
        if info.filled_seq != page.base:
            return
        now_ms = self._bus.now_ms()
        # The order goes by a clock of the queue's own, which goes on where the system's was set
        # back: else what came before would wait for it, or all ageing would stand still.
        clock_ms = info.rank_clock_ms
        offset_ms = max(info.rank_offset_ms, clock_ms - now_ms)
        rows: list[tuple[object, ...]] = []
        duplicates: list[tuple[Message, str]] = []
        believes_all = not info.is_acted_upon
        for message in page.messages:
            # By the sender's time, since a queue may be filled late; but never ahead.
            created_at_ms = max(0, min(message.ts_ms, now_ms))
            clock_ms = max(clock_ms, created_at_ms + offset_ms)
            if not (believes_all or message.seq in proven):
                self._jobs.add_unproven(info, message, created_at_ms, clock_ms)
                continue
            wanted = WorkHeaders.of(message)
            if wanted is None:
                rows.append(self._jobs.row(info, message, created_at_ms, clock_ms))
            else:
                why = self._jobs.add_special(info, message, wanted, created_at_ms, clock_ms)
                duplicates += [(message, why)] if why else []
        self._jobs.add(rows)
        self._queues.advance(info.id, page.upto, clock_ms, offset_ms)
        if duplicates:
            from ..jobs.job_replies import tell_cancelled

            tell_cancelled(self._bus, info, duplicates)

    def message(self, seq: int) -> Message:
        """Return the message of a job that is claimed.

        Raises:
            BusUnusable: it is in a part of the archive that is lost.
        """
        try:
            message = self._read.pop(seq, None) or self._bus.log.at(seq)
        except SegmentMissing as lost:
            give_up = f"give the job up: 'bus job cancel {seq} --queue {self._name}'"
            raise BusUnusable(lost.or_else(give_up)) from lost
        assert message is not None
        return message
