"""Queues: their statistics, policy, pausing, and limits of waiting messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from ...bus.options import LimitKind
from ...bus.waiting_limits import WaitingLimit
from ...schema.message.names import MAX_COUNT
from ...subscribers.jobs.json_records import queue_record, stats_record
from ...subscribers.jobs.policy import BOUNDS, Policy
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queue_set import change_policy
from ...subscribers.queues.queues import Queues
from ...subscribers.queues.statistics import DEFAULT_WINDOW_S, QueueStats
from ..access.access import TheClient
from ..records import RequestBody, Seq, types_of, with_fields, with_fields_of
from .common import (
    QueueName,
    QueueRecord,
    QueueStatsList,
    QueueStatsRecord,
    TheBus,
    new_router,
    problems,
)

router = new_router("queues")

WindowS = Annotated[
    float, Query(gt=0, le=2_592_000, description="How far back to look at attempts, in seconds.")
]


def _leave_defaults_out(schema: dict[str, Any]) -> None:
    """Keep generated clients from sending rules that their callers left out."""
    for rule in schema["properties"].values():
        rule.pop("default", None)


def _rule(name: str, kind: Any) -> tuple[Any, Any]:
    """Return the type and the default of a rule."""
    if name in BOUNDS:
        least, most = BOUNDS[name]
        kind = Annotated[kind, Field(ge=least, le=most)]
    return kind, getattr(Policy(), name)


@with_fields({name: _rule(name, kind) for name, kind in types_of(Policy).items()})
class PolicyBody(RequestBody):
    """Rules of a queue; those left out stay as they are."""

    model_config = ConfigDict(json_schema_extra=_leave_defaults_out)

    def rules(self) -> dict[str, Any]:
        """Return the rules that were given."""
        return self.model_dump(exclude_unset=True)


class QueueBody(RequestBody):
    """A queue to be made."""

    type: str | None = Field(
        None, min_length=1, max_length=255, description="Its type pattern; left out: its name."
    )
    start: Literal["beginning", "now"] | Seq = Field(
        "beginning", description="Where it begins in the log."
    )
    policy: PolicyBody = Field(default_factory=PolicyBody)


class Cancelled(BaseModel):
    """The result of purging a queue."""

    queue: str
    cancelled: int = Field(description="How many jobs were given up.")


class SkippedRange(BaseModel):
    """Messages that are lost."""

    first_seq: int
    last_seq: int


class Skipped(BaseModel):
    """The messages that a queue skipped because they are lost with a part of the archive."""

    queue: str
    skipped: list[SkippedRange]


@router.get(
    "/queues",
    response_model=QueueStatsList,
    response_model_exclude_unset=True,
    responses=problems(),
)
def list_queues(bus: TheBus, window_s: WindowS = DEFAULT_WINDOW_S) -> dict[str, Any]:
    """List the queues with their statistics."""
    queues = [Queue(bus, info) for info in Queues(bus).list()]
    stats = [QueueStats.of(queue, window_s=window_s) for queue in queues]
    return {"queues": [stats_record(queue_stats) for queue_stats in stats]}


@router.post(
    "/queues/{queue:path}/pause",
    response_model=QueueRecord,
    response_model_exclude_unset=True,
    responses=problems(),
)
def pause_queue(queue: QueueName, bus: TheBus, who: TheClient) -> dict[str, Any]:
    """Pause a queue: no job is claimed from it. Running jobs go on, and new ones wait."""
    who.check_may_change(queue, Queues(bus).get(queue).pattern)
    Queues(bus).pause(queue, by=who.doer())
    return queue_record(Queues(bus).get(queue))


@router.post(
    "/queues/{queue:path}/resume",
    response_model=QueueRecord,
    response_model_exclude_unset=True,
    responses=problems(),
)
def resume_queue(queue: QueueName, bus: TheBus, who: TheClient) -> dict[str, Any]:
    """Resume a paused queue."""
    who.check_may_change(queue, Queues(bus).get(queue).pattern)
    Queues(bus).resume(queue, by=who.doer())
    return queue_record(Queues(bus).get(queue))


@router.post("/queues/{queue:path}/purge", responses=problems())
def purge_queue(queue: QueueName, bus: TheBus, who: TheClient) -> Cancelled:
    """Cancel the waiting jobs of a queue. Running jobs go on; the messages stay in the log."""
    control = JobControl(Queue.open(bus, queue), by=who.doer())
    return Cancelled(queue=queue, cancelled=control.purge())


@router.post("/queues/{queue:path}/skip", responses=problems())
def skip_lost(queue: QueueName, bus: TheBus, who: TheClient) -> Skipped:
    """Resume a stuck queue without the messages that are lost with a part of the archive."""
    skipped = JobControl(Queue.open(bus, queue), by=who.doer()).skip()
    ranges = [SkippedRange(first_seq=first, last_seq=last) for first, last in skipped]
    return Skipped(queue=queue, skipped=ranges)


@router.get(
    "/queues/{queue:path}",
    response_model=QueueStatsRecord,
    response_model_exclude_unset=True,
    responses=problems(),
)
def show_queue(
    queue: QueueName, bus: TheBus, window_s: WindowS = DEFAULT_WINDOW_S
) -> dict[str, Any]:
    """Show a queue's statistics: waiting jobs, durations, failures; and its policy."""
    return stats_record(QueueStats.of(Queue.open(bus, queue), window_s=window_s))


@router.put(
    "/queues/{queue:path}",
    response_model=QueueRecord,
    response_model_exclude_unset=True,
    responses={
        201: {"model": QueueRecord, "description": "It was made."},
        **problems(409),
    },
)
def create_queue(
    queue: QueueName, options: QueueBody, bus: TheBus, who: TheClient, response: Response
) -> dict[str, Any]:
    """Create a queue, unless it exists.

    An existing queue with another type, or another value of a given rule, is a conflict; its
    beginning is not compared. Claiming shows messages, so creating a queue needs the scope to
    read them, and one of messages to an agent is made by that agent.
    """
    who.check_may_change(queue, options.type or queue)
    rules = options.policy.rules()
    if rules.get("addressed") is not None:
        who.work_as(rules["addressed"])
    with bus.transaction():
        if all(info.name != queue for info in Queues(bus).list()):
            response.status_code = 201
        created = Queue.create(bus, queue, options.type, start=options.start, **rules)
    return queue_record(created.info)


@router.patch(
    "/queues/{queue:path}",
    response_model=QueueRecord,
    response_model_exclude_unset=True,
    responses=problems(),
)
def set_policy(queue: QueueName, policy: PolicyBody, bus: TheBus, who: TheClient) -> dict[str, Any]:
    """Change rules of a queue. They apply from the next claim on."""
    return queue_record(change_policy(bus, queue, by=who.doer(), **policy.rules()))


# How much may wait -----------------------------------------------------------------------------


@with_fields_of(WaitingLimit, waiting="How many do now.")
class LimitRecord(BaseModel):
    """The number of messages that may wait in a queue or an inbox before publishers are refused."""


class LimitList(BaseModel):
    """The limits, by kind and name."""

    limits: list[LimitRecord]


class LimitBody(RequestBody):
    """A new limit."""

    max_waiting: Annotated[int, Field(ge=1, le=MAX_COUNT)]


LimitedName = Annotated[str, Path(min_length=1, max_length=255, description="The queue or agent.")]


@router.get("/limits", response_model=LimitList, responses=problems())
def list_limits(bus: TheBus) -> dict[str, Any]:
    """List the limits, and how many messages wait there now."""
    return {"limits": [asdict(limit) for limit in bus.limits.list()]}


@router.put("/limits/{kind}/{name:path}", response_model=LimitRecord, responses=problems(409))
def set_limit(
    kind: LimitKind, name: LimitedName, options: LimitBody, bus: TheBus, admin: TheClient
) -> dict[str, Any]:
    """Limit how many messages may wait in a queue or an inbox. Waiting messages stay."""
    if kind == "queue":
        JobControl(Queue.open(bus, name), by=admin.doer()).limit(options.max_waiting)
    else:
        bus.limits.set_for_inbox(name, options.max_waiting)
    return next(
        asdict(limit) for limit in bus.limits.list() if (limit.kind, limit.name) == (kind, name)
    )


@router.delete("/limits/{kind}/{name:path}", status_code=204, responses=problems())
def clear_limit(kind: LimitKind, name: LimitedName, bus: TheBus, admin: TheClient) -> None:
    """Remove a limit."""
    if kind == "queue":
        JobControl(Queue.open(bus, name), by=admin.doer()).clear_limit()
    else:
        bus.limits.clear(kind, name)
