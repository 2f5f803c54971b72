"""The origins of jobs, as flows: an event, a silent step, a wish, the end of a job."""

from __future__ import annotations

from ...subscribers.jobs.jobs import SUCCEEDED
from .flow import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message
    from ..jobs.endings import JobEnd
    from ..jobs.events import EventOut
    from ..jobs.job_request import SubmittedBy

#: The event of a step that has published none.
STEP_SUCCEEDED = "ductile.step.succeeded"

#: The event of a pipeline that is run by hand and has no event of its own.
STARTED = "ductile.pipeline.started"


def origin_of(job: Message) -> dict[str, object]:
    """Return what a job's headers say of where it comes from."""
    origin = job.headers.get("job") if job.raw_headers else None
    return origin if isinstance(origin, dict) else {}


def is_routed(job: Message) -> bool:
    """Tell whether events of a job outside of runs are routed: one by the API runs alone."""
    return job.headers.get("submitted_by") != "api"


def is_root(job: Message) -> bool:
    """Tell whether a job follows from no other, and from no hook."""
    origin = origin_of(job)
    return "parent_job_id" not in origin and "hook" not in origin


def of_event(ended: JobEnd, event: EventOut) -> Flow:
    """Return what follows from an event of a job."""
    return Flow(
        source=event.message,
        payload=event.message.payload if event.message.has_payload else None,
        event_type=event.type,
        event_source=ended.plugin,
        parent=event.message,
        parent_job_id=ended.message.id,
        source_event_id=event.message.id,
        dedupe_key=event.dedupe_key,
    )


def silent(ended: JobEnd, result: object) -> Flow:
    """Return what follows from the success of a step that has published nothing."""
    return Flow(
        source=ended.message,
        payload={"result": result},
        event_type=STEP_SUCCEEDED,
        event_source=ended.plugin,
        parent=ended.message,
        parent_job_id=ended.message.id,
    )


def outside(event: Message, event_type: str, submitted_by: SubmittedBy) -> Flow:
    """Return what follows from an event that no plugin has published."""
    return Flow(
        source=event,
        payload=event.payload if event.has_payload else None,
        event_type=event_type,
        event_source=event.from_agent,
        submitted_by=submitted_by,
        parent=event,
        source_event_id=event.id,
    )


def hooked(ended: JobEnd, signal: str, result: object) -> Flow:
    """Return what begins at the end of a job, apart from all that led to it.

    Its ids derive from the claim too: a job that was tried again may end a second time.
    """
    return Flow(
        source=ended.message,
        occasion=f"{signal} {ended.message.token}",
        payload=_report(ended, result),
        event_type=signal,
        event_source=ended.plugin,
        origin={"hook": signal},
    )


def _report(ended: JobEnd, result: object) -> dict[str, object]:
    """Return the payload of a hook."""
    report: dict[str, object] = {
        "job_id": ended.message.id,
        "plugin": ended.plugin,
        "command": ended.command,
        "status": ended.state,
        "attempt": ended.attempt,
    }
    if ended.state == SUCCEEDED:
        return report | {"result": result}
    told = f"Job failed [{ended.plugin}]: {ended.error}"
    return report | {"error": ended.error, "message": told, "text": told}
