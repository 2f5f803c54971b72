"""Jobs and claims as JSON objects: times as text, and nothing for what is absent."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from ..schema import PRIORITY_NAMES, format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..subscribers import ClaimRecord, Job


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
