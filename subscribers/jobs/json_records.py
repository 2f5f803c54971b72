"""Queues, jobs and claims as JSON objects: times as text, and nothing for what is absent."""

from __future__ import annotations

from dataclasses import asdict, fields

import orjson

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.message.draft import PRIORITY_NAMES
from ...schema.message.times import format_ts
from .policy import MAX_KEPT_CHARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...schema.message.message import Message
    from ..queues.queues import QueueInfo
    from ..queues.statistics import QueueStats
    from .claims import Claim, ClaimRecord
    from .jobs import Job

#: The prefix of the names of plugins' queues.
PLUGINS = "plugin."


def queue_record(info: QueueInfo) -> dict[str, object]:
    """Return a queue as an object."""
    record: dict[str, object] = {
        "queue": info.name,
        "type": info.pattern,
        "filled_seq": info.filled_seq,
        "created_at": format_ts(info.created_at_ms),
    }
    if info.paused_at_ms is not None:
        record["paused_at"] = format_ts(info.paused_at_ms)
    return record | {"policy": asdict(info.policy)}


def stats_record(stats: QueueStats) -> dict[str, object]:
    """Return the statistics of a queue as an object."""
    numbers = asdict(stats)
    del numbers["info"], numbers["at_ms"]
    at = {"at": format_ts(stats.at_ms), "state": state_of(stats)}
    return queue_record(stats.info) | at | {"is_saturated": stats.is_saturated} | numbers


def state_of(stats: QueueStats) -> str:
    """Return the state of a queue, as a word."""
    if stats.info.paused_at_ms is not None:
        return "paused"
    if stats.stuck is not None:
        return "stuck"
    return "saturated" if stats.is_saturated else "open"


def job_record(job: Job) -> dict[str, object]:
    """Return a job as an object."""
    return present(asdict(job) | {"priority": PRIORITY_NAMES[job.priority]})


def plugin_job_record(job: Job, message: Message) -> dict[str, object]:
    """Return the further fields of a plugin's job: the columns of the view `job_queue`."""
    header = message.headers.get("job")
    origin = header if isinstance(header, dict) else {}
    is_retried = job.state == "queued" and job.attempt > 1
    return {
        "id": message.id,
        "plugin": job.queue.removeprefix(PLUGINS),
        "command": message.type.removeprefix(job.queue + "."),
        "payload": message.payload,
        "status": "dead" if job.state == "cancelled" else job.state,
        "submitted_by": message.headers.get("submitted_by"),
        "started_at": _time(job.started_at_ms),
        "completed_at": _time(job.ended_at_ms),
        "next_retry_at": _time(job.available_at_ms) if is_retried else None,
        "dedupe_key": job.dedupe_key,
        "last_error": job.error,
        "parent_job_id": origin.get("parent_job_id"),
        "source_event_id": origin.get("source_event_id"),
    }


def _time(ms: int | None) -> str | None:
    return None if ms is None else format_ts(ms)


def claim_record(claim: ClaimRecord, now_ms: int) -> dict[str, object]:
    """Return a claim as an object, with the state that its lease is in now."""
    first = {"token": claim.token, "state": claim.state(now_ms), "status": claim.status}
    record = present(first | asdict(claim) | {"logs": _logs(claim.logs)})
    return record if claim.result is None else record | {"result": result_from_store(claim.result)}


def claimed_record(claim: Claim) -> dict[str, object]:
    """Return a claim that was just granted as an object, with the line of its message."""
    own = {field.name: getattr(claim, field.name) for field in fields(claim)}
    return present(own | {"message": orjson.Fragment(claim.message.to_line())})


def _logs(text: str | None) -> object:
    """Return what a command reported. A program with its own SQL may have stored any text."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


# A result is stored as text: text as it is, any other value as JSON. These two are inverse.


def result_to_store(value: object) -> object:
    """Return what to store for a result that came as JSON: `result_from_store` gives it back.

    Text that reads as JSON is stored as a JSON string, so that "12" does not come back as 12; text
    for which that is too long is stored as it is.
    """
    if value is None:
        return "null"
    if not isinstance(value, str) or result_from_store(value) == value:
        return value
    quoted = orjson.dumps(value).decode()
    return value if len(quoted) > MAX_KEPT_CHARS else quoted


def result_from_store(text: str) -> object:
    """Return the result that a stored text is: a value, where it is JSON as the bus writes it."""
    try:
        value = decode(text)
        return value if orjson.dumps(value) == text.encode() else text
    except (InvalidInput, orjson.JSONEncodeError):
        return text


#: The names of fields in JSON, where they are others.
_NAMES = {"instance": "worker", "lease_until": "until"}


def json_name(field: str) -> str:
    """Return the name in JSON of a field of a job or claim: a time has no unit there."""
    name = field.removesuffix("_ms")
    return _NAMES.get(name, name)


def present(record: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is None, and show `created_at_ms` as the time `created_at`."""
    return {
        json_name(name): format_ts(value)
        if name.endswith("_ms") and isinstance(value, int)
        else value
        for name, value in record.items()
        if value is not None
    }
