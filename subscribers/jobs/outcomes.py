"""The effects on a job of its claim's end, and of acts of people."""

from __future__ import annotations

import logging
import random
from copy import copy
from dataclasses import asdict, dataclass, replace

import orjson

from ...bus import tracing
from ...bus.doorbell import ring
from ...schema.errors import InvalidInput, LimitReached
from ...schema.message.draft import TRACE_STATE, Draft
from ...schema.message.names import (
    MAX_AGENT_CHARS,
    MAX_HEADERS_BYTES,
    MAX_POLICY_S,
    check_agent,
    check_id,
    check_type,
)
from ...schema.message.patterns import TypePattern
from ...schema.message.reply_types import ReplyTypes
from ...schema.queries import Table, engine_of
from ..answers import answered
from . import jobs as states
from .claims import COMPLETED, Outcome
from .errors import ClaimLost, TooManyHops
from .jobs import CANCELLED
from .json_records import present
from .policy import WorkHeaders, kept_error
from .statements import SQL, VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...bus.local_bus import LocalBus
    from ...schema.engine import Engine
    from ...schema.message.message import Message
    from ..queues.queues import QueueInfo
    from .claims import Claim, Claims
    from .jobs import Job, Jobs
    from .policy import Policy

    #: Makes the messages about a job that ends without a worker, from the message, the job's state
    #: and the reason.
    LastWords = Callable[[Message, str, str], Iterable[Draft]]

# The record of acts by hand on jobs and queues: who did it, and when. Stored with the act.

#: Acts on a job, and on a queue as a whole.
CANCEL, RETRY = "cancel", "retry"
PAUSE, RESUME, PURGE, SKIP, SET = "pause", "resume", "purge", "skip", "set"
LIMIT, UNLIMIT, REMOVE = "limit", "unlimit", "remove"

#: How many acts on a queue are shown: the newest.
SHOWN_ACTS = 20


@dataclass(frozen=True, slots=True)
class Act:
    """An act of a person.

    Attributes:
        at_ms: when, in epoch milliseconds.
        who: the agent, or the account of the program that did it (`user@host`).
        act: `cancel` or `retry` of a job; `pause`, `resume`, `purge`, `skip`,
            `set`, `limit`, `unlimit` or `remove` of a queue.
        seq: the job; None: the queue as a whole.
        detail: more about the act, for people; None: there is no more to say.
    """

    at_ms: int
    who: str
    act: str
    seq: int | None
    detail: str | None

    def record(self) -> dict[str, object]:
        """Return it as an object, without the fields that are None."""
        return present(asdict(self))


class ManualActs(Table):
    """The table `work_acts`.

    Args:
        engine: of the bus.
        by: the actor; None: the account of this process.
    """

    def __init__(self, engine: Engine, by: str | None = None) -> None:
        if by is not None:
            check_agent(by, "name of the actor")
        super().__init__(engine)
        self._by = by

    def note(
        self, info: QueueInfo, act: str, *, seq: int | None = None, detail: str | None = None
    ) -> None:
        """Record an act, in the transaction that does it."""
        who = self._by or account()
        values = (self._engine.now_ms(), who, act, info.id, seq, detail)
        self._engine.rows(SQL["note_act"], values)

    def of_job(self, info: QueueInfo, seq: int) -> list[Act]:
        """Return the acts on a job, in order."""
        return [Act(*row) for row in self._engine.rows(VIEWS["acts_of_job"], (info.id, seq))]

    def of_queue(self, info: QueueInfo, limit: int = SHOWN_ACTS) -> list[Act]:
        """Return the newest acts on a queue as a whole, in order."""
        rows = self._engine.rows(VIEWS["acts_of_queue"], (info.id, limit))
        return [Act(*row) for row in reversed(rows)]


def account() -> str:
    """Return the account of this process: `user@host`."""
    import os
    import pwd  # only those who act by hand need it

    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # as in a container
        name = str(user)
    return f"{name}@{os.uname().nodename}"


# Hops: the length of the chain of jobs before a message, each begun by the job before it.
#
# A worker's message that ends a job is one hop further than the job's message. So a worker whose
# answers feed its own queue differs from people who ask again, and its loop ends.

#: The header that counts them. Messages that agents and people publish have none, which is 0.
HOPS = "hops"

#: From how many hops on a warning is logged, and from how many on messages are refused: a chain of
#: different workers has a few, and a loop that nobody notices has hundreds in a second.
WARN_HOPS, MAX_HOPS = 20, 100


def hops_of(message: Message) -> int:
    """Return how many hops a message has come; 0 where its header is missing or no number."""
    hops = message.headers.get(HOPS) if message.raw_headers else None
    return hops if type(hops) is int and hops > 0 else 0


def one_hop_on(message: Message, drafts: Iterable[Draft]) -> list[Draft]:
    """Return the messages that are published as the job of a message ends, with their hops."""
    hops = hops_of(message) + 1
    counted = []
    for draft in drafts:
        draft = copy(draft)
        draft.headers = {**(draft.headers or {}), HOPS: hops}
        counted.append(draft)
    return counted


def refusal(message: Message, max_hops: int) -> TooManyHops | None:
    """Return the error if a message has come too many hops for further messages, or None."""
    hops = hops_of(message) + 1
    return TooManyHops(message.seq, hops, max_hops) if hops >= max_hops else None


# Answers: the messages that tell the senders of requests how their jobs ended.
#
# A worker answers with the outcome of the work (`answer_to`). A job that ends without a worker,
# because its worker is lost, a person gave it up, or it is a duplicate, has last words instead.

#: A header that a conversation carries on: data that its members share.
CONTEXT = "context"

#: Headers that a reply drops, in this order, when they are too long: stderr is on the claim anyway.
_DISPENSABLE = ("stderr", TRACE_STATE, CONTEXT)
#: The room that is left in the headers for the hops, which are added later, in bytes.
_LEFT_BYTES = 32

_log = logging.getLogger("ackbus.queue")


def answer_to(
    message: Message, type: str, payload: object, *, sender: str, headers: dict[str, object]
) -> Draft | None:
    """Return the answer to a message: to its sender, in its conversation, as urgent as it was.

    Args:
        message: what is answered.
        type, payload: of the answer.
        sender: the agent that answers.
        headers: of the answer; the message's trace context and `context` are added to them.

    Returns:
        The answer; None, and a warning, when it could not name the message or its sender: a
        program with its own SQL may have stored any text.
    """
    try:
        check_type(type)
        check_agent(message.from_agent, "sender")
        check_id(message.id)
        check_id(message.conversation, "conversation")
    except InvalidInput as error:
        _log.warning("message %s can't be answered: %s", message.seq, error)
        return None
    return Draft(
        type,
        payload,
        from_agent=sender,
        to_agent=message.from_agent,
        in_reply_to=message.id,
        correlation_id=message.conversation,
        priority=message.priority,
        headers=_fitting(carried_on(message) | headers),
    )


def last_words(sender: str, failure_type: str | None = None) -> LastWords:
    """Return the function that makes the answers to requests whose jobs end without a worker.

    Args:
        sender: the agent that answers.
        failure_type: their type; None follows the convention of `ReplyTypes`, by which messages
            that are no requests have no answer.
    """

    def make(message: Message, state: str, why: str) -> list[Draft]:
        type = ReplyTypes.of(message.type, failure=failure_type).failure
        if type is None or refusal(message, MAX_HOPS):
            return []
        text = f"no worker finished this: {kept_error(why)}"
        answer = answer_to(message, type, text, sender=sender, headers={"status": state})
        return [] if answer is None else one_hop_on(message, [answer])

    return make


def tell_cancelled(
    bus: LocalBus,
    info: QueueInfo,
    cancelled: Iterable[tuple[Message, str]],
    sender: str | None = None,
) -> None:
    """Answer the requests among messages whose jobs were cancelled, in the caller's transaction.

    A request that has an answer gets no second answer. An answer that has no room, or is refused,
    is left out with a warning: it must not keep a queue from being filled or emptied.

    Args:
        bus: the bus.
        info: the queue that the jobs are in.
        cancelled: each message, and why.
        sender: the agent that answers; None: the queue, under its name. The queue answers only if
            its pattern is the request's type: a queue of several types may only watch.
    """
    own_type = TypePattern(info.pattern).exact
    requests = [
        (message, why)
        for message, why in cancelled
        if ReplyTypes.of(message.type).failure and (sender or message.type == own_type)
    ]
    seqs_answered = answered(bus, [message for message, _ in requests])
    make = last_words(sender or info.name[:MAX_AGENT_CHARS].rstrip())
    refused: list[tuple[int, Exception]] = []
    for message, why in requests:
        if message.seq not in seqs_answered:
            try:
                bus.log.append(make(message, CANCELLED, why))
            except (InvalidInput, LimitReached) as error:
                refused.append((message.seq, error))
    if refused:  # logged when the cancellation is certain
        engine_of(bus).after_commit(lambda: _warn_of(info, refused))


def _warn_of(info: QueueInfo, refused: list[tuple[int, Exception]]) -> None:
    others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    seq, error = refused[0]
    _log.warning(
        "job %s%s of queue %s was cancelled without an answer: %s", seq, others, info.name, error
    )


def _fitting(headers: dict[str, object]) -> dict[str, object]:
    """Return headers without those that make them too long to be stored."""
    for name in _DISPENSABLE:
        if len(orjson.dumps(headers)) <= MAX_HEADERS_BYTES - _LEFT_BYTES:
            break
        headers.pop(name, None)
    return headers


def carried_on(message: Message) -> dict[str, object]:
    """Return the headers that messages copy from the message that they follow from."""
    headers = message.headers
    copied = {name: headers[name] for name in (TRACE_STATE, CONTEXT) if name in headers}
    return tracing.child_trace(headers) | copied


#: Why a claim is lost whose job was not cancelled.
RAN_OUT = "the lease ran out"


class ClaimEnder:
    """Ends claims, and decides about their jobs by the queue's policy."""

    def __init__(self, bus: LocalBus, jobs: Jobs, claims: Claims) -> None:
        self._bus = bus
        self._jobs = jobs
        self._claims = claims
        # The lost claims that a warning has named, since their last words have no room.
        self._reported_tokens: set[int] = set()

    def end(
        self,
        info: QueueInfo,
        claim: Claim,
        outcome: Outcome,
        replies: Sequence[Draft],
        now_ms: int,
        max_hops: int,
    ) -> tuple[Sequence[Draft], ClaimLost | TooManyHops | None]:
        """End a claim and settle its job, or keep a late worker's report with its lost claim.

        Returns:
            The replies that are to be published: none unless the job is over by this; and the error
            of a lost claim, or of replies that had to be refused.
        """
        _check_queue(info, claim)
        refused = refusal(claim.message, max_hops) if replies else None
        if refused is not None:
            outcome = replace(outcome, status=states.FAILED, error=str(refused), retry=False)
        if self._claims.end(claim.token, outcome, now_ms):
            is_over = self._settle(info, claim, outcome, now_ms)
            is_answered = is_over and refused is None
            return one_hop_on(claim.message, replies) if is_answered else (), refused
        error = self.lost(claim)
        self._claims.note_late_end(claim.token, outcome)
        return (), error

    def _settle(self, info: QueueInfo, claim: Claim, outcome: Outcome, now_ms: int) -> bool:
        """Decide about the job of a claim that has ended, and return whether it is over."""
        seq = claim.message.seq
        is_over = True
        key = claim.dedupe_key
        if outcome.status == COMPLETED:
            self._jobs.end(info, seq, states.SUCCEEDED, now_ms, None, key)
        elif is_tried_again(info.policy, claim, outcome):
            job = self._jobs.get(info, seq)
            self._jobs.queue_again(
                info, job, job.attempt + 1, now_ms + _pause_ms(info, claim, outcome), outcome.error
            )
            is_over = False
        else:
            self._jobs.end(info, seq, end_state(info.policy, outcome), now_ms, outcome.error, key)
        if info.policy.max_running is not None or key is not None or not is_over:
            ring(self._bus)  # workers may wait for room, or for the next attempt
        return is_over

    def recover(self, info: QueueInfo, now_ms: int, group: str, words: LastWords | None) -> None:
        """End the claims whose leases have run out, and decide about their jobs.

        A claim whose last words have no room is left for later: the others must not wait for it.

        Args:
            info: the queue.
            now_ms: the present time.
            group: the group of the worker that ends them.
            words: makes what is published for the jobs that end here; None answers requests by
                the convention, in the group's name.
        """
        words = words or last_words(group)
        expired = self._claims.expired(info, now_ms)
        for token, seq in expired:
            try:
                with self._bus.transaction():
                    self.lose(info, token, seq, now_ms, words)
            except LimitReached as error:
                if token not in self._reported_tokens:
                    self._reported_tokens.add(token)
                    _log.warning("job %s of queue %s can't end yet: %s", seq, info.name, error)
        if len(expired) > 1:
            ring(self._bus)  # there is more than this worker may take

    def lose(
        self,
        info: QueueInfo,
        token: int,
        seq: int,
        now_ms: int,
        words: LastWords,
        why: str = RAN_OUT,
    ) -> None:
        """End a claim as lost, and decide about its job by the policy for lost owners."""
        self._claims.lose(token, why, now_ms)
        job = self._jobs.get(info, seq)
        message = self._bus.log.readable(seq)
        wishes = None if message is None else WorkHeaders.of(message)
        rule = (wishes and wishes.on_lost) or info.policy.on_lost
        if rule == "requeue" and job.attempt < job.max_attempts:
            self._jobs.queue_again(info, job, job.attempt + 1, now_ms, why)
            return
        state = states.FAILED if rule == "fail" else states.DEAD
        self._jobs.end(info, seq, state, now_ms, why, job.dedupe_key)
        if message is not None:
            self._bus.log.append(words(message, state, why))

    def release(self, info: QueueInfo, claim: Claim, why: str) -> None:
        """Release a live claim: its job can be claimed again at once, as the same attempt."""
        _check_queue(info, claim)
        now_ms = self._bus.now_ms()
        if not self._claims.hand_back(claim.token, why, now_ms):
            raise self.lost(claim)
        job = self._jobs.get(info, claim.message.seq)
        self._jobs.queue_again(info, job, job.attempt, now_ms, why)
        ring(self._bus)

    def cancel(self, info: QueueInfo, claim: Claim, why: str) -> None:
        """End a live claim and its job for good; the worker answers a request that has none."""
        _check_queue(info, claim)
        now_ms = self._bus.now_ms()
        if not self._claims.end(claim.token, Outcome(status=states.FAILED, error=why), now_ms):
            raise self.lost(claim)
        self._jobs.end(info, claim.message.seq, states.CANCELLED, now_ms, why, claim.dedupe_key)
        tell_cancelled(self._bus, info, [(claim.message, why)], claim.group)
        ring(self._bus)

    def give_up(
        self, info: QueueInfo, given_up: Sequence[Job], why: str, state: str = states.CANCELLED
    ) -> None:
        """Cancel jobs in any state; workers that work on them lose their claims.

        Args:
            info: the queue.
            given_up: its jobs.
            why: the reason, for people.
            state: the state of the jobs from then on: `cancelled`, or `dead`, where a person may
                want to try them again.

        The queue answers requests of its own type, unless their jobs were over: then they have
        answers.
        """
        now_ms = self._bus.now_ms()
        for job in given_up:
            token = self._claims.active_of(info, job.seq) if job.state == states.RUNNING else None
            if token is not None:
                self._claims.lose(token, why, now_ms)
            self._jobs.end(info, job.seq, state, now_ms, why, job.dedupe_key)
        live = [self._bus.log.readable(job.seq) for job in given_up if job.ended_at_ms is None]
        tell_cancelled(self._bus, info, [(message, why) for message in live if message])
        ring(self._bus)

    def lost(self, claim: Claim) -> ClaimLost:
        """Return the error for a worker that no longer has a claim."""
        record = self._claims.get(claim.token)
        ended_as = None
        if record is None:
            how = "there is no such claim"
        elif record.status == "active":
            how = "its lease ran out"
        else:
            ended_as = record.status
            how = f"it ended as {ended_as}" + (f": {record.error}" if record.error else "")
        return ClaimLost(
            f"claim {claim.token} on message {claim.message.seq} of queue {claim.queue!r} is no"
            f" longer held by {claim.instance}: {how}",
            ended_as,
        )


def _check_queue(info: QueueInfo, claim: Claim) -> None:
    # Another queue has another job for the message: its job would end, and this job would run on.
    if claim.queue != info.name:
        raise InvalidInput(f"claim {claim.token} is of queue {claim.queue!r}, not {info.name!r}")


def is_tried_again(policy: Policy, claim: Claim, outcome: Outcome) -> bool:
    """Return whether another attempt at a job follows an attempt that failed."""
    is_wanted = _tries_failures(policy, outcome) if outcome.retry is None else outcome.retry
    return is_wanted and claim.attempt < claim.max_attempts


def _tries_failures(policy: Policy, outcome: Outcome) -> bool:
    """Return whether a failure of this kind is tried again."""
    return policy.retry == "failures" or (policy.retry == "contract" and not outcome.is_reply)


def end_state(policy: Policy, outcome: Outcome) -> str:
    """Return the state of a job after a failure that is not tried again.

    Where failures are tried again, or this failure asked for it, a person has to look at the last
    failure: the job is dead. Elsewhere a failure is an answer.
    """
    if _tries_failures(policy, outcome) or outcome.retry:
        return states.DEAD
    return states.TIMED_OUT if outcome.status == states.TIMED_OUT else states.FAILED


def _pause_ms(info: QueueInfo, claim: Claim, outcome: Outcome) -> int:
    if outcome.retry_after_s is not None:
        return round(1000 * min(max(0.0, outcome.retry_after_s), MAX_POLICY_S))
    return info.policy.backoff_ms(claim.attempt, random.random())
