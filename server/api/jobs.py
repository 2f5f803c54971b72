"""Jobs: the messages in queues, and dead letters, which wait for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, Any, Final

import orjson
from fastapi import Query, Response
from pydantic import BaseModel, Field

from ...bus.local_bus import LocalBus
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.message.patterns import TypePattern
from ...schema.message.times import MAX_TS_MS
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.errors import WrongJobState
from ...subscribers.jobs.jobs import Job, Jobs
from ...subscribers.jobs.json_records import claim_record, job_record
from ...subscribers.jobs.outcomes import ManualActs
from ...subscribers.options import JobState
from ...subscribers.queues.job_control import DeadLetters, JobControl
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.views import list_jobs
from ..access.access import TheClient
from ..access.tokens import Principal
from ..records import RequestBody, Seqs
from .common import (
    PAGE,
    JobInFull,
    JobList,
    JobRecord,
    Limit,
    OfType,
    QueueName,
    Seq,
    TheBus,
    json_of,
    new_router,
    problems,
)

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
