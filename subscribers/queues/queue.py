"""A queue: work that competing workers take, one message to one worker at a time."""

from __future__ import annotations

import warnings
from functools import cached_property
from itertools import islice

from ...bus import tracing
from ...bus.leases import DEFAULT_LEASE_S, duration_ms_of
from ...bus.own_answers import first_answered_before
from ...schema.arguments import with_checked_arguments
from ...schema.errors import AnsweredAgainWarning, InvalidInput
from ...schema.message.message import delivered
from ...schema.message.names import check_agent
from ..jobs.claims import Claim, Claims, Outcome
from ..jobs.errors import ClaimNotFound, QueueStuck
from ..jobs.jobs import FAILED, NEWS, SUCCEEDED, AtHand, Jobs
from ..jobs.outcomes import MAX_HOPS
from ..starts import BEGINNING
from .queues import Filler, QueueInfo, Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from ...bus.local_bus import LocalBus
    from ...schema.message.draft import Draft
    from ...schema.message.message import Receipt
    from ..jobs.errors import ClaimLost, TooManyHops
    from ..jobs.jobs import Ready
    from ..jobs.outcomes import ClaimEnder, LastWords
    from ..options import ClaimStatus, PolicyRules, Start
    from .job_control import DeadLetters, JobControl
    from .queues import MatchedPage
    from .statistics import QueueStats

# Claiming: the next jobs of a queue are handed out, each under a claim of its own.


class Claimer:
    """Hands out the jobs of a queue. All calls belong into the caller's transaction."""

    def __init__(self, jobs: Jobs, claims: Claims, filler: Filler) -> None:
        self._jobs = jobs
        self._claims = claims
        self._filler = filler

    def take(
        self, info: QueueInfo, who: tuple[str, str], limit: int, now_ms: int, lease_ms: int
    ) -> list[Claim]:
        """Claim up to `limit` jobs that may begin, for a group and instance, in order."""
        if info.paused_at_ms is not None:
            return []
        max_running = info.policy.max_running
        if max_running is not None:
            limit = min(limit, max_running - self._claims.count_active(info, max_running))
        rows = self._jobs.take(info, who[0], now_ms, limit) if limit > 0 else []
        return [self._claim(info, who, row, now_ms, now_ms + lease_ms) for row in rows]

    def _claim(
        self, info: QueueInfo, who: tuple[str, str], ready: Ready, now_ms: int, until_ms: int
    ) -> Claim:
        seq, attempt, max_attempts, available_at_ms, key = ready
        token = self._claims.add(info, seq, attempt, who, (available_at_ms, now_ms, until_ms))
        message = self._filler.message(seq)
        delivered(message, attempt, token)
        return Claim(info.name, message, token, attempt, max_attempts, key, *who, now_ms, until_ms)


#: The most jobs that one call claims: more would keep other writers waiting.
MAX_CLAIMS = 1000

#: How many pages of new messages a claim from a queue with priorities takes in before it chooses:
#: it must return within a second, also after many messages.
MAX_PAGES = 20


@with_checked_arguments
class Queue:
    """A queue as one process sees it. Make one with `Queue.create` or `Queue.open`.

    Every message whose type matches the queue's pattern becomes a job in it. A job is handed out
    under a claim: a lease with a token. As long as the claim is extended, no other worker gets the
    job; its end is checked against the token in the same transaction, so a worker whose lease ran
    out changes nothing, and gets `ClaimLost`.

    A queue may be shared by threads; after a fork, open it again in the child.

    Attributes:
        bus: the bus that it is in.
        info: the queue as it is stored, as last read.
        stuck: the error that kept it from taking in more when it was filled last, or None.
    """

    def __init__(self, bus: LocalBus, info: QueueInfo) -> None:
        self.bus = bus
        self.info = info
        self.stuck: QueueStuck | None = None
        self._queues = Queues(bus)
        self._jobs = Jobs.of(bus)
        self._claims = Claims.of(bus)
        self._filler = Filler(bus, info, self._queues, self._jobs)
        self._claimer = Claimer(self._jobs, self._claims, self._filler)
        self._was_empty = False  # whether the last claim found nothing at all

    @classmethod
    def create(
        cls,
        bus: LocalBus,
        name: str,
        pattern: str | None = None,
        *,
        start: Start = BEGINNING,
        group: str | None = None,
        **rules: Unpack[PolicyRules],
    ) -> Queue:
        """Create a queue, unless it exists, and open it. Safe to repeat.

        Args:
            bus: an open bus.
            name: its name.
            pattern: the types of the messages that it takes in; None takes its name for that, and
                an existing queue as it is.
            start: `beginning` (all that the log holds), `now`, or a seq; only for a new queue.
            group: the worker group whose addressed messages it takes in, if `addressed` is not
                among the rules; only for a new queue.
            rules: fields of `Policy`.

        Raises:
            InvalidInput: an argument breaks a rule.
            QueueMismatch: the queue has another pattern, or another value of a given rule.
        """
        return cls(bus, Queues(bus).create(name, pattern, start=start, group=group, **rules))

    @classmethod
    def open(cls, bus: LocalBus, name: str) -> Queue:
        """Open an existing queue.

        Raises:
            QueueNotFound: there is none of this name.
        """
        return cls(bus, Queues(bus).get(name))

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.info.name

    @property
    def jobs(self) -> JobControl:
        """Its jobs: look at them, retry, cancel or purge them, limit how many wait."""
        from .job_control import JobControl

        return JobControl(self)

    @property
    def dead_letters(self) -> DeadLetters:
        """Its dead letters: find, requeue or drop them."""
        from .job_control import DeadLetters

        return DeadLetters(self)

    def stats(self, *, window_s: float = 86_400.0) -> QueueStats:
        """Return its statistics; its attempts are those of the last `window_s`, up to 30 days."""
        from .statistics import QueueStats

        return QueueStats.of(self, window_s=window_s)

    def fill(self) -> None:
        """Take in all that the log holds now, so that counts and lists are complete.

        Claiming does this as far as it needs. Before a lost part of the archive it stops, and sets
        `stuck`: the jobs that are in the queue can be listed and changed all the same. A backup,
        which is read-only, is left as it is.
        """
        if self.bus.backup_made_at_ms is not None:
            return
        self._refresh()
        try:
            while (page := self._filler.look()) is not None:
                with (
                    self.bus.transaction()
                ):  # one for each page, by the queue's policy at that time
                    self._filler.store(page, self._refresh())
        except QueueStuck as stuck:
            self.stuck = stuck
        else:
            self.stuck = None

    def take_in(self, seqs: Sequence[int]) -> None:
        """Make jobs of messages that the caller, by its right, published in its transaction.

        In a queue whose jobs are acted upon, no other call makes jobs of messages.
        """
        with self.bus.transaction():
            while (page := self._filler.look()) is not None:
                self._filler.store(page, self._refresh(), seqs)

    def take_in_done(self, seq: int, by: str, result: object) -> int:
        """Make a job of a message, as `take_in` does, which has succeeded from the beginning.

        The job never waits: no worker gets it, whether or not the queue is paused or full.

        Args:
            seq: of the message, which the caller published in its transaction.
            by: the actor that has done the work; for people.
            result: the result of the job.

        Returns:
            The token of its only claim, which has ended.
        """
        with self.bus.transaction():
            self.take_in([seq])
            info, now_ms = self._refresh(), self.bus.now_ms()
            self._jobs.begin(info, seq, now_ms)
            token = self._claims.add(info, seq, 1, (by, by), (now_ms, now_ms, now_ms + 1))
            self._claims.end(token, Outcome(result=result), now_ms)
            self._jobs.end(info, seq, SUCCEEDED, now_ms, None, None)
        return token

    def claim(
        self,
        instance: str,
        *,
        group: str | None = None,
        limit: int = 1,
        lease_s: float = DEFAULT_LEASE_S,
        last_words: LastWords | None = None,
    ) -> list[Claim]:
        """Take up to `limit` jobs: those for this group, then others in order. Never waits.

        It also settles jobs whose workers are lost, by the queue's policy. One transaction; none
        when there is nothing to do.

        Args:
            instance: which process or thread takes them; for people.
            group: the class of workers that it belongs to; None takes the instance.
            limit: how many at most, 1 to 1,000.
            lease_s: how long each claim lasts unless it is renewed, in seconds.
            last_words: makes messages for the jobs that end here because their workers are lost;
                they are published in the same transaction. None answers requests by the
                convention of `ReplyTypes`.

        Returns:
            The claims; fewer than `limit`, or none, when there is no more, the queue is paused,
            or as many run as may.

        Raises:
            InvalidInput: an argument breaks a rule.
            BusBusy: other writers kept the bus for too long; nothing was claimed.
            QueueStuck: there is no job, and a lost part of the archive comes next.
            Refused: its jobs are for the automation alone.
        """
        lease_ms = duration_ms_of(lease_s)
        if not 1 <= limit <= MAX_CLAIMS:
            raise InvalidInput(f"limit must be 1 to {MAX_CLAIMS}, not {limit}")
        who = (group or instance, instance)
        for name in who:
            check_agent(name, "worker")
        self.info.policy.refuse_others(self.name, who[0])
        while True:
            page, at_hand = self._find(who[0], limit)
            if page is None and not at_hand.has_work:
                return []
            with self.bus.transaction():
                taken = self._claim_found(page, at_hand, who, limit, lease_ms, last_words)
            for claim in taken:
                tracing.claimed(claim.message, claim.queue, claim.group, claim.claimed_at_ms)
            if taken or at_hand.is_shut or not (at_hand.ready or page is not None):
                return taken
            # Others were faster, or the page brought no job that may be claimed now: look again.

    def take(self, who: tuple[str, str], limit: int, lease_ms: int) -> list[Claim]:
        """Claim up to `limit` jobs that are in the queue, in the open transaction.

        It takes in no new messages, and leaves jobs of lost workers alone: `claim` does that, or a
        caller that claims from several queues at once.

        Args:
            who: the worker group, and the instance of it.
            limit: how many at most.
            lease_ms: how long each claim lasts, in milliseconds.
        """
        return self._claimer.take(self._refresh(), who, limit, self.bus.now_ms(), lease_ms)

    def renew(self, claim: Claim, *, lease_s: float = DEFAULT_LEASE_S) -> None:
        """Extend a claim to `lease_s` from now. Safe to repeat.

        Raises:
            ClaimLost: its lease has run out, or the job was cancelled; nothing was changed.
        """
        lease_ms = duration_ms_of(lease_s)
        with self.bus.transaction():
            now_ms = self.bus.now_ms()  # read here: waiting for the lock must not shorten the lease
            if not self._claims.renew(claim.token, now_ms + lease_ms, now_ms):
                raise self._claim_ender.lost(claim)

    def complete(self, claim: Claim, *replies: Draft, result: object = None) -> list[Receipt]:
        """Complete a claim, and publish its replies in the same transaction, as `end` does."""
        return self.end(claim, Outcome(result=result), replies)

    def fail(
        self,
        claim: Claim,
        error: str,
        *replies: Draft,
        retry: bool | None = None,
        after_s: float | None = None,
    ) -> list[Receipt]:
        """Fail a claim: the job is retried after its pause, or is over.

        Args:
            claim, replies: as for `end`, as are results and errors.
            error: why, for people.
            retry: whether there is to be another attempt; None leaves it to the queue's policy.
            after_s: the pause before that, in seconds; None leaves it to the policy.
        """
        outcome = Outcome(status=FAILED, error=error, retry=retry, retry_after_s=after_s)
        return self.end(claim, outcome, replies)

    def end(self, claim: Claim, outcome: Outcome, replies: Sequence[Draft] = ()) -> list[Receipt]:
        """End a claim, decide about its job, and publish the replies if the job is over by this.

        This is one transaction: no crash leaves an end without its reply. Inside a larger
        transaction that is rolled back, everything is undone, also the record of a late outcome.

        Returns:
            The receipts of the replies; none when the job waits for another attempt.

        Raises:
            ClaimLost: the lease has run out, or the job was cancelled. The outcome is kept on the
                claim for people; job and log are unchanged.
            TooManyHops: the job is over, as failed for good, and no reply was published: the
                message is at the end of a loop of `MAX_HOPS` jobs that feed each other.
            LimitReached: a reply is for a queue or an inbox that is full; nothing was changed.
            As for `Bus.publish`; nothing was changed.
        """
        to_asker = [draft for draft in replies if draft.to_agent is not None]  # no events to all
        parents = {claim.message.id: (claim.message.conversation, claim.message.type)}
        answered_before = first_answered_before(self.bus, to_asker, parents) if to_asker else None
        ((receipts, error),) = self.end_many([(claim, outcome, replies)])
        if error is not None:
            raise error
        if receipts and answered_before is not None:
            warnings.warn(AnsweredAgainWarning(answered_before), stacklevel=3)
        return receipts

    def end_many(
        self, ends: Iterable[tuple[Claim, Outcome, Sequence[Draft]]], *, max_hops: int = MAX_HOPS
    ) -> list[tuple[list[Receipt], ClaimLost | TooManyHops | None]]:
        """Do as `end` does for several claims in one transaction.

        A claim that was lost does not keep the others from ending; any other error undoes all.

        Args:
            ends: each claim, how its attempt ended, and the replies.
            max_hops: replies are refused from this number of hops on.

        Returns:
            For each claim the receipts of its replies, and the error if it was lost, or its
            replies were refused.
        """
        with self.bus.transaction():
            info = self._refresh()
            now_ms = self.bus.now_ms()
            ended = [self._claim_ender.end(info, *end, now_ms, max_hops) for end in ends]
            drafts = [draft for replies, _ in ended for draft in replies]
            # The sender of a request has acted; other recipients may be a slip.
            self.bus.agents.refuse_several(*(draft.to_agent for draft in drafts))
            receipts = iter(self.bus.log.append(drafts) if drafts else [])
        return [([*islice(receipts, len(replies))], error) for replies, error in ended]

    def release(self, claim: Claim, why: str = "handed back by its worker") -> None:
        """Release a claim: its job can be claimed again at once, and the attempt does not count.

        Raises:
            ClaimLost: the lease has run out, or the job was cancelled; nothing was changed.
        """
        with self.bus.transaction():
            self._claim_ender.release(self._refresh(), claim, why)

    def cancel(self, claim: Claim, why: str) -> None:
        """End a claim and its job for good, without success or failure.

        The sender of a request without an answer gets one, by the convention of `ReplyTypes`; if
        the answer has no room, a warning is logged and the job ends without it.

        Raises:
            ClaimLost: the lease has run out, or the job was cancelled; nothing was changed.
        """
        with self.bus.transaction():
            self._claim_ender.cancel(self._refresh(), claim, why)

    def status(self, claim: Claim) -> ClaimStatus | None:
        """Return the stored status of a claim: `active`, then the status of its end.

        None when there is no such claim. A claim whose lease has run out stays `active` until the
        next claim, renewal or end notices.
        """
        return self._claims.status(claim.token)

    def next_change_ms(self) -> int | None:
        """Return when a delay ends or a lease runs out next, in epoch milliseconds, or None."""
        return self._jobs.next_change_ms(self.info)

    def _find(self, worker: str, limit: int) -> tuple[MatchedPage | None, AtHand]:
        """Return new messages, if they are needed, and the work at hand without them."""
        was_idle = self._was_empty and self.info.policy.ordering == "fifo"
        page = self._filler.look() if was_idle else None
        at_hand = self._jobs.at_hand(self.info, worker, limit) if page is None else NEWS
        may_begin = not at_hand.is_shut or at_hand.is_due or at_hand.is_lost
        if not was_idle and may_begin and not (at_hand.is_by_age and at_hand.ready >= limit):
            try:
                page = self._filler.look()
            except QueueStuck:
                if not at_hand.has_work:
                    raise
        for _ in range(
            0 if at_hand.is_by_age else MAX_PAGES
        ):  # the most urgent message may be the last
            if page is None or not page.is_full:
                break
            with self.bus.transaction():
                self._filler.store(page, self._refresh())
            page = self._filler.look()
        self._was_empty = not (page or at_hand.has_work or at_hand.is_shut)
        return page, at_hand

    def _claim_found(
        self,
        page: MatchedPage | None,
        at_hand: AtHand,
        who: tuple[str, str],
        limit: int,
        lease_ms: int,
        last_words: LastWords | None,
    ) -> list[Claim]:
        info = self._refresh()
        now_ms = self.bus.now_ms()
        if page is not None:
            self._filler.store(page, info)
        if at_hand.is_lost:
            self._claim_ender.recover(info, now_ms, who[0], last_words)
        if at_hand.is_due:
            self._jobs.open_due(info, now_ms)
        return self._claimer.take(info, who, limit, now_ms, lease_ms)

    @cached_property
    def _claim_ender(self) -> ClaimEnder:
        from ..jobs.outcomes import ClaimEnder  # a queue that is only looked at ends no job

        return ClaimEnder(self.bus, self._jobs, self._claims)

    def _refresh(self) -> QueueInfo:
        info = self.info = self._queues.get(self.name)
        self._filler.policy = info.policy
        return info  # not `self.info`: another thread may have read the queue since


# Finding a claim again by its token, for workers that are no process of ours and keep only that.
#
# The claim may be lost: that is checked when it is renewed or ended.


def claim_of(bus: LocalBus, token: int) -> tuple[Queue, Claim]:
    """Return the claim with a token, and its queue.

    Raises:
        ClaimNotFound: there never was such a claim.
        SegmentMissing: its message is in a part of the archive that can't be read.
    """
    record = Claims.of(bus).get(token)
    if record is None:
        raise ClaimNotFound(f"there is no claim {token}; see 'bus job show'")
    queue = Queue.open(bus, record.queue)
    job = Jobs.of(bus).get(queue.info, record.seq)
    message = bus.log.at(record.seq)
    assert message is not None  # the log keeps every message, and claims are on messages
    delivered(message, record.attempt, token)
    return queue, Claim(
        queue=record.queue,
        message=message,
        token=token,
        attempt=record.attempt,
        max_attempts=job.max_attempts,
        dedupe_key=job.dedupe_key,
        group=record.group,
        instance=record.instance,
        claimed_at_ms=record.claimed_at_ms,
        lease_until_ms=record.lease_until_ms,
    )
