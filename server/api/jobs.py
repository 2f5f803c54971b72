"""Jobs: messages in queues, claims of workers that don't open the file, and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...bus import tracing
from ...bus.leases import DEFAULT_LEASE_S, MAX_LEASE_S
from ...bus.local_bus import LocalBus
from ...bus.own_answers import answered_before
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.message import Message
from ...schema.message.names import MAX_SEQ
from ...schema.message.patterns import TypePattern
from ...schema.message.times import MAX_TS_MS
from ...subscribers.jobs.claims import Claim, Claims, Outcome
from ...subscribers.jobs.errors import ClaimLost, WrongJobState
from ...subscribers.jobs.jobs import Job, Jobs
from ...subscribers.jobs.json_records import (
    claim_record,
    claimed_record,
    job_record,
    result_to_store,
)
from ...subscribers.jobs.outcomes import ManualActs
from ...subscribers.options import JobState
from ...subscribers.queues.job_control import DeadLetters, JobControl
from ...subscribers.queues.queue import Queue, claim_of
from ...subscribers.queues.queues import Queues
from ...subscribers.views import list_jobs
from ..access.access import TheClient
from ..access.tokens import Principal
from ..records import (
    DEFAULT_AGENT_TEXT,
    MAX_ENTRIES,
    IdempotencyKey,
    Name,
    ReceiptRecord,
    ReplyBody,
    RequestBody,
    Seqs,
    reply_drafts,
)
from ..waiting import in_thread
from .common import (
    PAGE,
    AttemptRecord,
    ClaimedList,
    ClaimInFull,
    JobInFull,
    JobList,
    JobRecord,
    Limit,
    OfType,
    QueueName,
    Seq,
    TheBus,
    TheKey,
    TheTrace,
    TheWaiter,
    json_of,
    new_router,
    problems,
)

# Claims: taking work, holding on to it, and ending it, for workers that don't open the file.

claims_router = new_router("claims")

LeaseS = Annotated[
    float, Field(gt=0, le=MAX_LEASE_S, description="How long it lasts unless renewed, in seconds.")
]
ClaimToken = Annotated[int, Path(ge=1, le=MAX_SEQ, description="The token of a claim.")]
Replies = Annotated[
    list[ReplyBody], Field(max_length=MAX_ENTRIES, description="Published in the same transaction.")
]


class ClaimBody(RequestBody):
    """A wish for jobs: the worker, and how many at most."""

    worker: Name = Field(description="The process or thread that takes the job.")
    group: Name | None = Field(
        None, description=f"Its class of workers; {DEFAULT_AGENT_TEXT}, or else the worker."
    )
    limit: int = Field(1, ge=1, le=100, description="How many at most.")
    lease_s: LeaseS = DEFAULT_LEASE_S


class ClaimRenewalBody(RequestBody):
    """The new lease of a claim."""

    lease_s: LeaseS = DEFAULT_LEASE_S


class ClaimResultBody(RequestBody):
    """The result of a completed claim."""

    result: Any = Field(None, description="Kept on the claim, up to 65,536 characters.")
    replies: Replies = Field([])


class ClaimFailureBody(RequestBody):
    """Why the work failed."""

    error: str = Field(max_length=65_536, description="In one line, for people.")
    status: Literal["failed", "timed_out"] = "failed"
    retry: bool | None = Field(None, description="Whether to retry; left out: the queue's policy.")
    retry_after_s: float | None = Field(None, ge=0, le=315_360_000)
    replies: Replies = Field([], description="Published if the job is over by this.")


class ClaimReleaseBody(RequestBody):
    """Why a job is handed back."""

    why: str = Field("handed back by its worker", max_length=2000)


class EndRecord(BaseModel):
    """The replies that were published when a claim ended."""

    receipts: list[ReceiptRecord] = Field(description="None when the job is tried again.")


@claims_router.post(
    "/queues/{queue:path}/claims", response_model=ClaimedList, responses=problems(409)
)
async def claim_jobs(
    queue: QueueName,
    options: ClaimBody,
    bus: TheBus,
    waiter: TheWaiter,
    worker: TheClient,
) -> Response:
    """Take jobs, in the queue's order; none when there is nothing, also after `wait_s`.

    No other worker gets them until the lease runs out. The jobs of a client that disconnects
    before the response are released at once.
    """
    group = worker.work_as(options.group or worker.agent or options.worker)
    opened = await in_thread(partial(Queue.open, bus, queue))
    worker.check_may_take(queue, opened.info.pattern)
    pattern = TypePattern(opened.info.pattern)
    claim = partial(
        opened.claim, options.worker, group=group, limit=options.limit, lease_s=options.lease_s
    )
    claims: list[Claim] = await waiter.until(
        claim, bool, lambda message: pattern.matches(message.type)
    )
    if claims and await waiter.is_gone():
        await in_thread(partial(_hand_back, opened, claims))
    return json_of({"claims": [*map(claimed_record, claims)]})


def _hand_back(queue: Queue, claims: list[Claim]) -> None:
    for claim in claims:
        with suppress(ClaimLost):
            queue.release(claim, "its worker disconnected before the response")


@claims_router.get("/claims/{token}", response_model=ClaimInFull, responses=problems())
def show_claim(token: ClaimToken, bus: TheBus, reader: TheClient) -> Response:
    """Show a claim, how it stands, and its message with the payload."""
    _, claim = claim_of(bus, token)
    info = Claims.of(bus).get(token)
    assert info is not None
    message = orjson.Fragment(claim.message.to_json())
    return json_of(claim_record(info, bus.now_ms()) | {"message": message})


@claims_router.post(
    "/claims/{token}/renew",
    response_model=AttemptRecord,
    response_model_exclude_unset=True,
    responses=problems(409),
)
def renew_claim(
    token: ClaimToken, renewal: ClaimRenewalBody, bus: TheBus, worker: TheClient
) -> dict[str, object]:
    """Extend a claim to `lease_s` from now. Safe to repeat. A lost claim is a conflict."""
    queue, claim = _held(bus, token, worker)
    queue.renew(claim, lease_s=renewal.lease_s)
    info = Claims.of(bus).get(token)
    assert info is not None
    return claim_record(info, bus.now_ms())


@claims_router.post("/claims/{token}/complete", responses=problems(409, 413))
def complete_claim(
    token: ClaimToken,
    result: ClaimResultBody,
    bus: TheBus,
    worker: TheClient,
    trace: TheTrace,
    key: TheKey,
) -> EndRecord:
    """Complete a claim, and publish its replies, in one transaction.

    A reply goes to the message's sender, in its conversation. A lost claim is a conflict: the
    result is kept on the claim, and nothing is published.
    """
    is_given = "result" in result.model_fields_set
    outcome = Outcome(result=result_to_store(result.result) if is_given else None)
    return _end(bus, token, worker, outcome, result.replies, trace, key)


@claims_router.post("/claims/{token}/fail", responses=problems(409, 413))
def fail_claim(
    token: ClaimToken,
    failed: ClaimFailureBody,
    bus: TheBus,
    worker: TheClient,
    trace: TheTrace,
    key: TheKey,
) -> EndRecord:
    """Fail a claim: the job is retried after its delay, or ends as its queue's policy says."""
    outcome = Outcome(
        status=failed.status,
        error=failed.error,
        retry=failed.retry,
        retry_after_s=failed.retry_after_s,
    )
    return _end(bus, token, worker, outcome, failed.replies, trace, key)


@claims_router.post("/claims/{token}/release", status_code=204, responses=problems(409))
def release_claim(
    token: ClaimToken, back: ClaimReleaseBody, bus: TheBus, worker: TheClient
) -> None:
    """Release a claim: its job can be claimed again at once, and the attempt does not count."""
    queue, claim = _held(bus, token, worker)
    queue.release(claim, back.why)


def _held(bus: LocalBus, token: int, worker: Principal) -> tuple[Queue, Claim]:
    queue, claim = claim_of(bus, token)
    worker.check_may_take(queue.name, queue.info.pattern)
    worker.work_as(claim.group)
    return queue, claim


def _end(
    bus: LocalBus,
    token: int,
    worker: Principal,
    outcome: Outcome,
    replies: Sequence[ReplyBody],
    trace: Mapping[str, str],
    key: IdempotencyKey,
) -> EndRecord:
    queue, claim = _held(bus, token, worker)
    message: Message = claim.message
    drafts = reply_drafts(replies, message, claim.group, worker, key)
    again = [draft.to_agent and answered_before(bus, draft) for draft in drafts]
    receipts = queue.end(claim, outcome, tracing.traced(drafts, trace))
    return EndRecord(receipts=[*map(ReceiptRecord.of, receipts, again)])


# Jobs: the messages in queues, and dead letters, which wait for a person.

router = new_router("jobs")

OfQueue = Annotated[str | None, Query(min_length=1, description="Only those of this queue.")]
BeforeInQueue = Annotated[
    int | None, Query(ge=1, le=MAX_SEQ, description="Only what comes before it, in one `queue`.")
]
AfterInQueue = Annotated[
    int | None, Query(ge=0, le=MAX_SEQ, description="Only what comes after it, in one `queue`.")
]

_DEAD: Final = "dead"


class JobsBody(RequestBody):
    """The jobs of an operation that changes all of them, or none."""

    seqs: Seqs = Field(description="The seqs of their messages.")


class ChangedJobs(BaseModel):
    """The jobs that were changed, as they are now."""

    jobs: list[JobRecord]


@router.get(
    "/jobs", response_model=JobList, response_model_exclude_unset=True, responses=problems()
)
def list_all_jobs(
    bus: TheBus,
    queue: OfQueue = None,
    state: Annotated[list[JobState] | None, Query(description="Repeatable.")] = None,
    before: BeforeInQueue = None,
    limit: Limit = PAGE,
) -> dict[str, Any]:
    """List jobs, the newest first; `queued` ones alone, and without `before`, come in line."""
    states = state or []
    queues = _queues(bus, queue)
    _check_page(queue, "before", before)
    jobs = [
        job
        for open_queue in queues
        for job in list_jobs(open_queue, states, limit, before_seq=before)
    ]
    if before is not None or set(states) != {"queued"}:
        jobs.sort(key=lambda job: -job.seq)
    return _list(bus, jobs[:limit])


def _queues(bus: LocalBus, name: str | None) -> list[Queue]:
    infos = Queues(bus).list() if name is None else [Queues(bus).get(name)]
    return [Queue(bus, info) for info in infos]


def _check_page(queue: str | None, name: str, seq: int | None) -> None:
    """Refuse a page that begins at a seq of several queues: a message may be a job in each."""
    if queue is None and seq is not None:
        raise InvalidInput(f"{name!r} goes on in one queue: give 'queue' too")


def _list(bus: LocalBus, jobs: Iterable[Job]) -> dict[str, Any]:
    return {"jobs": [_record(bus, job) for job in jobs]}


def _record(bus: LocalBus, job: Job) -> dict[str, object]:
    message = bus.log.readable(job.seq)
    return job_record(job) | ({} if message is None else {"type": message.type})


@router.post(
    "/queues/{queue:path}/jobs/{seq}/retry",
    response_model=JobRecord,
    response_model_exclude_unset=True,
    responses=problems(409),
)
def retry_job(queue: QueueName, seq: Seq, bus: TheBus, who: TheClient) -> dict[str, Any]:
    """Retry a job that ended without success, from its first attempt."""
    return job_record(_control(bus, queue, who).retry(seq))


@router.post(
    "/queues/{queue:path}/jobs/{seq}/cancel",
    response_model=JobRecord,
    response_model_exclude_unset=True,
    responses=problems(409),
)
def cancel_job(queue: QueueName, seq: Seq, bus: TheBus, who: TheClient) -> dict[str, Any]:
    """Cancel a job. A worker that has claimed it learns that the claim is lost."""
    return job_record(_control(bus, queue, who).cancel(seq))


def _control(bus: LocalBus, name: str, who: Principal) -> JobControl:
    """Return the control of a queue's jobs, for a client that may change the queue."""
    queue = Queue.open(bus, name)
    who.check_may_change(name, queue.info.pattern)
    return JobControl(queue, by=who.doer())


@router.get(
    "/queues/{queue:path}/jobs/{seq}",
    response_model=JobInFull,
    responses=problems(),
)
def show_job(queue: QueueName, seq: Seq, bus: TheBus) -> Response:
    """Show a job with its message, and every attempt at it."""
    return _in_full(bus, queue, seq, None)


def _in_full(bus: LocalBus, name: str, seq: int, state: str | None) -> Response:
    queue = Queue.open(bus, name)
    queue.fill()
    job = Jobs.of(bus).get(queue.info, seq)
    if state not in (None, job.state):
        raise NotFound(f"job {seq} of queue {name!r} is not {state}: it is {job.state}")
    message = bus.log.at(seq)
    assert message is not None  # the log keeps every message, and jobs are made of messages
    now_ms = bus.now_ms()
    attempts = Claims.of(bus).of_job(queue.info, seq)
    acts = ManualActs.of(bus).of_job(queue.info, seq)
    return json_of(
        job_record(job)
        | {
            "message": orjson.Fragment(message.to_json()),
            "attempts": [claim_record(claim, now_ms) for claim in attempts],
            "acts": [act.record() for act in acts],
        }
    )


# Dead letters ----------------------------------------------------------------------------------


@router.get(
    "/dead-letters",
    response_model=JobList,
    response_model_exclude_unset=True,
    responses=problems(),
)
def list_dead_letters(
    bus: TheBus,
    queue: OfQueue = None,
    type: OfType = None,
    since_ms: Annotated[
        int | None,
        Query(ge=0, le=MAX_TS_MS, description="Only what died then or later, in epoch ms."),
    ] = None,
    after: AfterInQueue = None,
    limit: Limit = PAGE,
) -> dict[str, Any]:
    """List the jobs that used up their attempts, and why they failed, by queue and in order."""
    if type is not None:
        TypePattern(type)  # refused where there is no queue, too
    _check_page(queue, "after", after)
    queues = _queues(bus, queue)
    for open_queue in queues:
        open_queue.fill()
    dead = (
        job
        for open_queue in queues
        for job in DeadLetters(open_queue).find(
            (_DEAD,), type=type, since_ms=since_ms, after_seq=after or 0
        )
    )
    return _list(bus, islice(dead, limit))


@router.post(
    "/dead-letters/{queue:path}/requeue",
    response_model=ChangedJobs,
    response_model_exclude_unset=True,
    responses=problems(409),
)
def requeue_dead_letters(
    queue: QueueName, chosen: JobsBody, bus: TheBus, who: TheClient
) -> dict[str, Any]:
    """Requeue dead letters from their first attempt: all that are named, or none."""
    control = _control(bus, queue, who)
    return _change(bus, queue, chosen.seqs, control.retry)


@router.post(
    "/dead-letters/{queue:path}/drop",
    response_model=ChangedJobs,
    response_model_exclude_unset=True,
    responses=problems(409),
)
def drop_dead_letters(
    queue: QueueName, chosen: JobsBody, bus: TheBus, who: TheClient
) -> dict[str, Any]:
    """Drop dead letters: all that are named, or none. They end as cancelled, on record."""
    control = _control(bus, queue, who)
    return _change(bus, queue, chosen.seqs, lambda seq: control.cancel(seq, "dropped by hand"))


def _change(bus: LocalBus, name: str, seqs: list[int], act: Callable[[int], Job]) -> dict[str, Any]:
    queue = Queue.open(bus, name)
    queue.fill()
    jobs = Jobs.of(bus)
    with bus.transaction():
        for seq in dict.fromkeys(seqs):
            state = jobs.get(queue.info, seq).state
            if state != _DEAD:
                raise WrongJobState(f"job {seq} of queue {name!r} is not dead: it is {state}")
        changed = [act(seq) for seq in dict.fromkeys(seqs)]
    return _list(bus, changed)


@router.get("/dead-letters/{queue:path}/{seq}", response_model=JobInFull, responses=problems())
def show_dead_letter(queue: QueueName, seq: Seq, bus: TheBus) -> Response:
    """Show a dead letter with its message, and every attempt at it."""
    return _in_full(bus, queue, seq, _DEAD)
