"""Conditions of steps on record: for each a job of `core.switch`, which is over, and its event.

A condition is asked in a transaction: when a step ends, or a run begins. So its job never waits, no
worker gets it, and nothing about it can fail or be tried again. Its event is as those of plugins.
"""

from __future__ import annotations

from ...schema.message.canonical_json import encode
from ...schema.queries import engine_of
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.hops import HOPS, hops_of
from ...subscribers.jobs.jobs import SUCCEEDED
from ...subscribers.jobs.policy import AUTOMATION
from ...subscribers.queues.queue import Queue
from ..config.flows import SWITCH, SWITCH_EVENTS
from ..records.job_log import AttemptEnd, JobLog
from .events import event_draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from .job_request import Answer

#: The queue of the jobs, and their one type.
QUEUE = f"plugin.{SWITCH}"
COMMAND = "handle"
TYPE = f"{QUEUE}.{COMMAND}"


def record(bus: Bus, job: Message, answer: Answer, dedupe_key: str | None) -> str:
    """Store the answer of a condition, in the transaction that has published its job.

    Args:
        bus: the bus.
        job: the message of the job.
        answer: whether the condition holds.
        dedupe_key: which the jobs that follow its event inherit.

    Returns:
        The queue that has the job.
    """
    event_type = SWITCH_EVENTS[answer.holds]
    told = {"matched": answer.holds, "event": event_type}
    token = _queue(bus, job.seq).take_in_done(job.seq, AUTOMATION, told)
    payload = job.payload if job.has_payload else None
    event = {"type": event_type, "payload": payload, "dedupe_key": dedupe_key}
    draft = event_draft(SWITCH, job, event, id=answer.event_id)
    if hops := hops_of(job):  # a condition is no hop, and forgets none
        draft.headers = {**(draft.headers or {}), HOPS: hops}
    bus.log.append([draft])
    JobLog(engine_of(bus)).add(
        AttemptEnd(
            message=job,
            plugin=SWITCH,
            command=COMMAND,
            status=SUCCEEDED,
            attempt=1,
            token=token,
            stdout=encode(told).decode(),
            stderr=None,
            error=None,
        )
    )
    return QUEUE


def _queue(bus: Bus, seq: int) -> Queue:
    """Open the queue of conditions; the first of them makes it."""
    try:
        return Queue.open(bus, QUEUE)
    except QueueNotFound:
        return Queue.create(bus, QUEUE, f"{QUEUE}.*", start=seq, addressed=AUTOMATION, hides="all")
