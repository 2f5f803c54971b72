"""Finding the jobs that a command names, and printing jobs."""

from __future__ import annotations

import orjson

from ...bus.errors import SegmentMissing
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.times import format_ts
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.json_records import (
    PLUGINS,
    claim_record,
    job_record,
    plugin_job_record,
)
from ...subscribers.jobs.manual_acts import Acts
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from . import output
from .message import print_in_full
from .queues import acts_lines, duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...bus.bus import Bus
    from ...subscribers.jobs.claims import ClaimRecord
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.queues.queue import Queue

#: How much of an error a list shows, in characters, and of stderr, in lines.
_ERROR_CHARS, _STDERR_LINES = 60, 10

#: The states of queued jobs for people, by their gates.
_WAITING = {"open": "queued", "time": "delayed", "key": "held"}

#: The fields of a job's record that stand within others for people.
_FOLDED = ("gate", "max_attempts")

_HEADINGS = ("queue", "seq", "type", "state", "attempts", "when", "error")


def queues_named(bus: Bus, name: str | None) -> list[Queue]:
    """Return the named queue, or all without a name; filled as far as possible."""
    stored = Queues(bus)
    infos = stored.list() if name is None else [stored.get(name)]
    queues = [Queue(bus, info) for info in infos]
    for queue in queues:
        queue.fill()
        if queue.stuck is not None:
            output.note(str(queue.stuck))
    return queues


def code_of_list(count: int, queues: Iterable[Queue]) -> int:
    """Return the exit code of a list of so many jobs: 1 when some may be missing, 4 for none."""
    if any(queue.stuck is not None for queue in queues):
        return 1
    return 0 if count else output.NOTHING


def jobs_named(
    bus: Bus, seqs: Iterable[int], queue: str | None, state: str | None = None
) -> list[tuple[Queue, Job]]:
    """Return the jobs that a command line names, each with its queue.

    Args:
        bus: the bus.
        seqs: their messages.
        queue: the queue; None finds it, where there is only one.
        state: the state that they must be in, if any.

    Raises:
        NotFound: one is in no queue, or in another state.
        InvalidInput: one is in several queues.
    """
    queues = {each.name: each for each in queues_named(bus, queue)}
    found = []
    for seq in dict.fromkeys(seqs):
        job = _job_named(bus, seq, list(queues), state)
        found.append((queues[job.queue], job))
    return found


def _job_named(bus: Bus, seq: int, queues: Sequence[str], state: str | None) -> Job:
    jobs = [job for job in Jobs.of(bus).of_message(seq) if job.queue in queues]
    if not jobs:
        where = f"queue {queues[0]!r}" if len(queues) == 1 else "any queue"
        raise NotFound(f"message {seq} is not a job of {where}; see 'bus job list'")
    fitting = [job for job in jobs if state in (None, job.state)]
    if not fitting:
        states = " and ".join(f"{job.state} in queue {job.queue!r}" for job in jobs)
        raise NotFound(f"job {seq} is not {state}: it is {states}")
    if len(fitting) > 1:
        names = " and ".join(repr(job.queue) for job in fitting)
        raise InvalidInput(f"message {seq} is a job of queues {names}; say which with --queue")
    return fitting[0]


def print_jobs(bus: Bus, jobs: Iterable[Job]) -> int:
    """Print jobs, and return how many there were."""
    if not output.is_json():
        rows = [_row(bus, job) for job in jobs]
        if rows:
            output.table(_HEADINGS, rows)
        return len(rows)
    count = 0
    for count, job in enumerate(jobs, 1):  # noqa: B007
        output.json_line(_record(bus, job))
    return count


def _record(bus: Bus, job: Job) -> dict[str, object]:
    type = _type_of(bus, job)
    return job_record(job) | ({} if type is None else {"type": type})


def _row(bus: Bus, job: Job) -> Sequence[object]:
    error = job.error or ""
    return (
        *(job.queue, job.seq, _type_of(bus, job) or "?", state_of(job)),
        *(f"{begun_attempts(job)}/{job.max_attempts}", _when(job, bus.now_ms())),
        error if len(error) <= _ERROR_CHARS else error[: _ERROR_CHARS - 1] + "…",
    )


def _type_of(bus: Bus, job: Job) -> str | None:
    """Return the type of a job's message; None when that is lost with a part of the archive."""
    try:
        message = bus.log.at(job.seq)
    except SegmentMissing:
        return None
    return None if message is None else message.type


def state_of(job: Job) -> str:
    """Return the state of a job for people, which tells what a queued one waits for."""
    return _WAITING[job.gate] if job.state == "queued" else job.state


def begun_attempts(job: Job) -> int:
    """Return how many attempts at a job have begun, since it was last retried by hand.

    `attempt` is the next one of a job that waits, and of one that was cancelled while it waited.
    """
    waited = job.state == "queued"
    if job.state in ("cancelled", "dead"):
        waited = job.started_at_ms is None or job.started_at_ms < job.available_at_ms
    return job.attempt - waited


def _when(job: Job, now_ms: int) -> str:
    at_ms = job.ended_at_ms
    if at_ms is None:
        at_ms = job.started_at_ms if job.state == "running" else job.available_at_ms
    age_ms = now_ms - (at_ms or 0)
    return f"{duration(age_ms)} ago" if age_ms >= 0 else f"in {duration(-age_ms)}"


# One job in full ------------------------------------------------------------------------------


def print_job(bus: Bus, queue: Queue, job: Job) -> None:
    """Print a job, its message, every attempt at it, and the acts of people on it."""
    claims = Claims.of(bus).of_job(queue.info, job.seq)
    acts = Acts.of(bus).of_job(queue.info, job.seq)
    now_ms = bus.now_ms()
    message = bus.log.at(job.seq)
    assert message is not None  # the log keeps every message, and jobs are made of messages
    if output.is_json():
        attempts = [claim_record(claim, now_ms) for claim in claims]
        stored = orjson.Fragment(message.to_json())
        by_hand = [act.record() for act in acts]
        record = job_record(job)
        if job.queue.startswith(PLUGINS):
            record |= plugin_job_record(job, message)
        output.json_line(record | {"message": stored, "attempts": attempts, "acts": by_hand})
        return
    record = job_record(job)
    shown = record | {
        "state": state_of(job),
        "attempt": f"{begun_attempts(job)} of {job.max_attempts}",
    }
    names = {name: "attempts" if name == "attempt" else name for name in record}
    _print_fields({names[name]: shown[name] for name in record if name not in _FOLDED})
    for line in acts_lines(acts):
        output.line(line)
    for claim in claims:
        output.line("")
        _print_claim(claim, now_ms)
    output.line("")
    print_in_full(message, bus)


def _print_claim(claim: ClaimRecord, now_ms: int) -> None:
    output.line(
        f"attempt {claim.attempt}: {claim.status} ({claim.state(now_ms)}), by {claim.group}"
        f" on {claim.instance}, token {claim.token}"
    )
    waited = f"waited {duration(max(0, claim.claimed_at_ms - claim.available_at_ms))}"
    fields: dict[str, object] = {"claimed": f"{format_ts(claim.claimed_at_ms)}, {waited}"}
    if claim.ended_at_ms is None:
        fields["lease until"] = format_ts(claim.lease_until_ms)
    else:
        ran = f"ran {duration(max(0, claim.ended_at_ms - claim.claimed_at_ms))}"
        fields["ended"] = f"{format_ts(claim.ended_at_ms)}, {ran}"
    kept = {
        "exit code": claim.exit_code,
        "error": claim.error,
        "result": claim.result,
        "logs": claim.logs,
    }
    _print_fields(fields | {name: value for name, value in kept.items() if value not in (None, "")})
    _print_stderr(claim.stderr)


def _print_stderr(stderr: str | None) -> None:
    lines = (stderr or "").splitlines()
    for part in lines[:_STDERR_LINES]:
        output.line(f"{'stderr:':<14}{part}")
    if len(lines) > _STDERR_LINES:
        more = output.counted(len(lines) - _STDERR_LINES, "more line")
        output.line(f"{'stderr:':<14}… {more}; --json shows all")


def _print_fields(fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        output.line(f"{f'{name}:'.replace('_', ' '):<14}{value}")
