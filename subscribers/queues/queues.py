"""The queues of a bus: their names, patterns and policies, and how each is filled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from ...bus.doorbell import ring
from ...bus.errors import SegmentMissing
from ...schema.errors import BusUnusable, InvalidInput, shown
from ...schema.message.message import Message
from ...schema.message.names import check_agent, check_queue_name, did_you_mean
from ...schema.message.patterns import TypePattern, check_pattern, is_acted_queue
from ...schema.message.times import MAX_TS_MS
from ...schema.queries import engine_of
from ..jobs.errors import QueueMismatch, QueueNotFound, QueueStuck
from ..jobs.outcomes import PAUSE, RESUME, ManualActs
from ..jobs.policy import POLICY_FIELDS, Policy, WorkHeaders
from ..jobs.statements import SQL
from ..starts import BEGINNING, seq_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any, Unpack

    from ...bus.local_bus import LocalBus
    from ..jobs.jobs import Jobs
    from ..options import PolicyRules, Start

# Filling a queue: messages of its types become jobs, when a worker asks for work.
#
# Publishers pay nothing for queues. A claim reads the log from the queue's position on, and makes
# jobs of matching messages. It writes only for a match, or after a long way without a match.
#
# A queue whose jobs are acted upon trusts no message: a step with the right makes its jobs, in the
# transaction that publishes them. Other messages are recorded as cancelled jobs.

#: How many messages become jobs in one transaction: a few milliseconds.
PAGE_JOBS = 500

#: How many messages without a match a filler reads before it stores its position, so that the next
#: process need not read them again.
STORE_AFTER = 10_000


@dataclass(frozen=True, slots=True)
class MatchedPage:
    """The matches of a look at the log.

    Attributes:
        base: the stored position when the look began.
        upto: the seq up to which it looked.
        messages: the matching messages, in order.
    """

    base: int
    upto: int
    messages: list[Message]

    @property
    def is_full(self) -> bool:
        """Whether there may be further matches after this page."""
        return len(self.messages) == PAGE_JOBS


class Filler:
    """Brings the messages of the log into a queue, each once."""

    def __init__(self, bus: LocalBus, info: QueueInfo, queues: Queues, jobs: Jobs) -> None:
        self._bus = bus
        self._queue_id = info.id
        self._name = info.name
        self._pattern = TypePattern(info.pattern)
        #: The queue's rules, as last read.
        self.policy = info.policy
        self._queues = queues
        self._jobs = jobs
        # How far this process has looked without a match, beyond the stored position.
        self._looked_upto = 0
        # The messages of the last page, by seq: most of them are claimed soon, and by this process.
        self._read: dict[int, Message] = {}

    def look(self) -> MatchedPage | None:
        """Look for messages that are not jobs yet; None when there are none. Writes no job.

        Raises:
            QueueStuck: there are none, and a lost part of the archive comes next.
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
            return MatchedPage(base, upto, messages)
        if is_final:
            self._looked_upto = newest
        if newest - base > STORE_AFTER:
            self._queues.pass_by(self._queue_id, base, newest)
        if stuck is not None:
            raise stuck
        return None

    def _matching(self, after: int, newest: int) -> list[Message]:
        """Return up to a page of messages that fit; a short way is read in one statement."""
        if newest - after <= PAGE_JOBS:
            recent = self._bus.log.between(after, newest, pattern=self._pattern)
            return list(filter(self._takes, recent))
        messages = self._bus.log.read(after_seq=after, upto_seq=newest, type=self._pattern.text)
        return list(islice(filter(self._takes, messages), PAGE_JOBS))

    def _takes(self, message: Message) -> bool:
        return self.policy.takes(message.to_agent)

    def store(
        self, page: MatchedPage, info: QueueInfo, proven: Collection[int] = frozenset()
    ) -> None:
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
        # The order goes by the queue's own clock, which goes on when the system's is set back:
        # otherwise new jobs would go before all earlier ones, or all ageing would stand still.
        clock_ms = info.rank_clock_ms
        offset_ms = max(info.rank_offset_ms, clock_ms - now_ms)
        rows: list[tuple[object, ...]] = []
        duplicates: list[tuple[Message, str]] = []
        takes_all = not info.is_acted_upon
        for message in page.messages:
            # By the sender's time, since a queue may be filled late; but never in the future.
            created_at_ms = max(0, min(message.ts_ms, now_ms))
            clock_ms = max(clock_ms, created_at_ms + offset_ms)
            if not (takes_all or message.seq in proven):
                self._jobs.add_unproven(info, message, created_at_ms, clock_ms)
                continue
            wishes = WorkHeaders.of(message)
            if wishes is None:
                rows.append(self._jobs.row(info, message, created_at_ms, clock_ms))
            else:
                why = self._jobs.add_special(info, message, wishes, created_at_ms, clock_ms)
                duplicates += [(message, why)] if why else []
        self._jobs.add(rows)
        self._queues.advance(info.id, page.upto, clock_ms, offset_ms)
        if duplicates:
            from ..jobs.outcomes import tell_cancelled

            tell_cancelled(self._bus, info, duplicates)

    def message(self, seq: int) -> Message:
        """Return the message of a job that is claimed.

        Raises:
            BusUnusable: the message is in a lost part of the archive.
        """
        try:
            message = self._read.pop(seq, None) or self._bus.log.at(seq)
        except SegmentMissing as lost:
            give_up = f"give the job up: 'bus job cancel {seq} --queue {self._name}'"
            raise BusUnusable(lost.or_else(give_up)) from lost
        assert message is not None
        return message


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue as it is stored.

    Attributes:
        id: its number, for the other tables.
        name: its name.
        pattern: the types of the messages that it takes in.
        filled_seq: the seq up to which it has looked at the log.
        rank_clock_ms: the queue's own clock, in epoch milliseconds: the time of its youngest job.
        rank_offset_ms: by how much that clock is ahead of the system's.
        paused_at_ms: since when nothing is claimed from it, in epoch milliseconds, or None.
        created_at_ms: when it was made.
        policy: its rules.
    """

    id: int
    name: str
    pattern: str
    filled_seq: int
    rank_clock_ms: int
    rank_offset_ms: int
    paused_at_ms: int | None
    created_at_ms: int
    policy: Policy

    @property
    def is_acted_upon(self) -> bool:
        """Whether only `Queue.take_in` makes its jobs, and filling does not."""
        return is_acted_queue(self.name, self.pattern)


class Queues:
    """The table `queues`."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._engine = engine_of(bus)

    def create(
        self,
        name: str,
        pattern: str | None = None,
        *,
        start: Start = BEGINNING,
        group: str | None = None,
        **rules: Unpack[PolicyRules],
    ) -> QueueInfo:
        """Create a queue, unless it exists. Safe to repeat, and from several processes at once.

        Args:
            name: its name.
            pattern: a type pattern; None is its name for a new queue, and any for an existing one.
            start: `beginning`, `now`, or the seq of the first message that it takes in; an existing
                queue stays where it is.
            group: the `addressed` of a new queue, unless `rules` has that rule.
            rules: fields of `Policy`; those left out have their defaults. Attempts or a pause
                without `retry` mean that failures are retried.

        Raises:
            InvalidInput: an argument breaks a rule.
            QueueMismatch: the queue has another pattern, or another value of a given rule: only
                what was given is compared.
        """
        if group is not None:
            check_agent(group)
        policy = Policy.of_row(
            policy_with(Policy(), with_retries(rules)).row()
        )  # as it is stored: whole milliseconds
        with self._engine.write():
            filled_seq = seq_before(self._bus, start)
            if self._engine.row(SQL["queue"], (name,)) is None:
                initial = policy if "addressed" in rules else replace(policy, addressed=group)
                self._add(name, name if pattern is None else pattern, filled_seq, initial)
            info = self.get(name)
        _check_same(info, pattern, rules, policy)
        return info

    def _add(self, name: str, pattern: str, filled_seq: int, policy: Policy) -> None:
        check_queue_name(name)
        check_pattern(pattern)
        _check_hiding(pattern, policy)
        row = (name, pattern, filled_seq, self._engine.now_ms(), *policy.row())
        self._engine.rows(SQL["create_queue"], row)

    def get(self, name: str) -> QueueInfo:
        """Return a queue.

        Raises:
            QueueNotFound: there is none of this name.
        """
        row = self._engine.row(SQL["queue"], (name,))
        if row is None:
            hint = did_you_mean(name, (info.name for info in self.list()))
            raise QueueNotFound(f"there is no queue {name!r}{hint}; see 'bus queue list'")
        return _info(row)

    def list(self) -> list[QueueInfo]:
        """Return all queues, by name."""
        return [_info(row) for row in self._engine.rows(SQL["queues"])]

    def set_policy(self, info: QueueInfo, policy: Policy) -> None:
        """Store the rules of a queue, in the caller's transaction; `change_policy` does the rest.

        Raises:
            InvalidInput: the policy hides all messages that fit a pattern which SQL can't match.
        """
        _check_hiding(info.pattern, policy)
        self._engine.rows(SQL["set_policy"], (*policy.row(), info.id))

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Stop claims from a queue; running jobs go on, and new jobs wait.

        Args:
            name: the queue.
            by: the actor, for the record; None: the account of this process.

        Raises:
            QueueNotFound: there is none of this name.
        """
        self._set_paused(name, self._engine.now_ms(), ManualActs(self._engine, by))

    def resume(self, name: str, *, by: str | None = None) -> None:
        """Allow claims from a paused queue again; its workers are woken.

        Args:
            name, by: as for `pause`.

        Raises:
            QueueNotFound: there is none of this name.
        """
        self._set_paused(name, None, ManualActs(self._engine, by))
        ring(self._bus)

    def remove(self, info: QueueInfo, name: str) -> None:
        """Leave a queue out of all lists, under another name, in the caller's transaction."""
        self._engine.rows(SQL["remove_queue"], (name, self._engine.now_ms(), info.id))

    # Filling -----------------------------------------------------------------------------------

    def position(self, queue_id: int) -> tuple[int, int]:
        """Return how far a queue is filled, and the newest seq of the log, at the same moment."""
        ((filled_seq, newest_seq),) = self._engine.rows(SQL["filled_seq"], (queue_id,))
        return filled_seq, newest_seq

    def pass_by(self, queue_id: int, base: int, upto: int) -> bool:
        """Move a queue's position over messages that it doesn't take, if it is still at `base`."""
        return bool(self._engine.change(SQL["pass_by"], (upto, queue_id, base)))

    def advance(self, queue_id: int, upto: int, clock_ms: int, offset_ms: int) -> None:
        """Move a queue's position and its clock, in the caller's transaction."""
        self._engine.rows(SQL["advance_filling"], (upto, clock_ms, offset_ms, queue_id))

    def _set_paused(self, name: str, at_ms: int | None, acts: ManualActs) -> None:
        with self._engine.write():
            info = self.get(name)
            self._engine.rows(SQL["set_paused"], (at_ms, info.id))
            acts.note(info, RESUME if at_ms is None else PAUSE)


def _check_hiding(pattern: str, policy: Policy) -> None:
    """Refuse to hide all messages that fit a pattern which SQL can't match."""
    if policy.hides == "all":
        TypePattern(pattern).as_glob()


def with_retries(rules: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return rules; a number of attempts or a pause adds the rule that failures are retried."""
    is_about_retries = not rules.keys().isdisjoint(("max_attempts", "backoff_s"))
    return {"retry": "failures", **rules} if is_about_retries else rules


def policy_with(base: Policy, rules: Mapping[str, Any]) -> Policy:
    """Return a policy with other values of some of its rules.

    Raises:
        InvalidInput: there is no such rule, or it can't have this value.
    """
    unknown = sorted(rules.keys() - set(POLICY_FIELDS))
    if unknown:
        raise InvalidInput(
            f"a policy has no {', '.join(unknown)}; it has {', '.join(POLICY_FIELDS)}"
        )
    return replace(base, **rules)


def _check_same(
    info: QueueInfo, pattern: str | None, rules: Mapping[str, Any], policy: Policy
) -> None:
    if pattern not in (None, info.pattern):
        raise QueueMismatch(
            f"queue {info.name!r} exists and takes in {info.pattern}, not {pattern}; use"
            " another queue name"
        )
    for rule in rules:
        if getattr(info.policy, rule) != getattr(policy, rule):
            raise QueueMismatch(
                f"queue {info.name!r} exists with {rule} {info.policy.said(rule)}, not"
                f" {policy.said(rule)}; change it with 'bus queue set'",
                rule,
            )


def _info(row: tuple[Any, ...]) -> QueueInfo:
    count = len(POLICY_FIELDS)
    try:
        values = (*row[:-count], _policy_of(row[-count:]))
    except InvalidInput as error:
        raise _unusable(row[1], str(error)) from error
    info = QueueInfo(*values)
    if not 0 <= info.rank_clock_ms <= MAX_TS_MS or abs(info.rank_offset_ms) > MAX_TS_MS:
        raise _unusable(info.name, "its clock has no valid time")
    return info


def _unusable(name: str, why: str) -> BusUnusable:
    """Return the error for a queue of which another program has stored values that can't be."""
    return BusUnusable(
        f"queue {shown(name)} can't be used: {why}; 'bus doctor --repair' puts it right"
    )


@lru_cache(maxsize=64)
def _policy_of(row: tuple[Any, ...]) -> Policy:
    """Make a policy once: a queue is read for each claim, and its policy hardly ever changes."""
    return Policy.of_row(row)
