"""Queues, jobs and claims as JSON objects: times as text, and nothing for what is absent."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from ...schema.message.priority import PRIORITY_NAMES
from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..queues.queues import QueueInfo
    from ..queues.statistics import QueueStats
    from .claims import ClaimRecord
    from .jobs import Job


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
    """Return how a queue is, in one word."""
    if stats.info.paused_at_ms is not None:
        return "paused"
    if stats.stuck is not None:
        return "stuck"
    return "saturated" if stats.is_saturated else "open"


def job_record(job: Job) -> dict[str, object]:
    """Return a job as an object."""
    return _present(asdict(job) | {"priority": PRIORITY_NAMES[job.priority]})


def claim_record(claim: ClaimRecord, now_ms: int) -> dict[str, object]:
    """Return a claim as an object, with the state that its lease is in now."""
    first = {"token": claim.token, "state": claim.state(now_ms), "status": claim.status}
    return _present(first | asdict(claim) | {"logs": _logs(claim.logs)})


def _logs(text: str | None) -> object:
    """Return what a command reported. A program with its own SQL may have stored any text."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _present(fields: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is None, and show `created_at_ms` as the time `created_at`."""
    return {
        name.removesuffix("_ms"): format_ts(value)
        if name.endswith("_ms") and isinstance(value, int)
        else value
        for name, value in fields.items()
        if value is not None
    }
