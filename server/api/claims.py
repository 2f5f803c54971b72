"""Claims: taking work, holding on to it, and ending it, for workers that don't open the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import orjson
from fastapi import Path, Response
from pydantic import BaseModel, Field

from ...bus import tracing
from ...bus.leases import DEFAULT_LEASE_S, MAX_LEASE_S
from ...bus.local_bus import LocalBus
from ...bus.own_answers import answered_before
from ...schema.message.message import Message
from ...schema.message.names import MAX_SEQ
from ...schema.message.patterns import TypePattern
from ...subscribers.jobs.claims import Claim, Claims, Outcome
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.jobs.json_records import claim_record, claimed_record, kept_result
from ...subscribers.queues.queue import Queue, claim_of
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
    reply_drafts,
)
from ..waiting import in_thread
from .common import (
    AttemptRecord,
    ClaimedList,
    ClaimInFull,
    QueueName,
    TheBus,
    TheKey,
    TheTrace,
    TheWaiter,
    json_of,
    new_router,
    problems,
)

router = new_router("claims")

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


@router.post("/queues/{queue:path}/claims", response_model=ClaimedList, responses=problems(409))
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


@router.get("/claims/{token}", response_model=ClaimInFull, responses=problems())
def show_claim(token: ClaimToken, bus: TheBus, reader: TheClient) -> Response:
    """Show a claim, how it stands, and its message with the payload."""
    _, claim = claim_of(bus, token)
    info = Claims.of(bus).get(token)
    assert info is not None
    message = orjson.Fragment(claim.message.to_json())
    return json_of(claim_record(info, bus.now_ms()) | {"message": message})


@router.post(
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


@router.post("/claims/{token}/complete", responses=problems(409, 413))
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
    outcome = Outcome(result=kept_result(result.result) if is_given else None)
    return _end(bus, token, worker, outcome, result.replies, trace, key)


@router.post("/claims/{token}/fail", responses=problems(409, 413))
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


@router.post("/claims/{token}/release", status_code=204, responses=problems(409))
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
