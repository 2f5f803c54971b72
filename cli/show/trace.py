"""A trace as a tree of lines for people."""

from __future__ import annotations

from ...schema.message.times import format_ts
from . import output
from .jobs import begun_attempts
from .queues import act_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...blobs.store import BlobStore
    from ...subscribers.jobs.claims import ClaimRecord
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.overview.trace import Trace

    #: How deep a line is, its text, and its style on a terminal.
    Row = tuple[int, str, str]

#: How deep the tree is drawn; what lies deeper is drawn there. Two agents who answer each other
#: may go on for long.
MAX_DEPTH = 24

#: The styles of states and statuses of failure, and of success.
_STYLES = {
    "failed": "red",
    "timed_out": "red",
    "dead": "bold red",
    "lost": "yellow",
    "cancelled": "yellow",
    "succeeded": "green",
    "completed": "green",
}


def branches(trace: Trace, blobs: BlobStore, now_ms: int) -> list[tuple[str, str, str]]:
    """Return the lines of a trace: what draws the tree, the text, and its style."""
    return _drawn(list(_rows(trace, blobs, now_ms)))


def _rows(trace: Trace, blobs: BlobStore, now_ms: int) -> Iterator[Row]:
    for step in trace.steps:
        depth = min(step.depth, MAX_DEPTH)
        style = "bold" if step.message.seq == trace.seq else ""
        yield depth, "  ".join(output.message_parts(step.message, blobs)), style
        for work in step.work:
            yield depth + 1, _job_text(work.job), _STYLES.get(work.job.state, "cyan")
            for claim in work.claims:
                yield depth + 2, _claim_text(claim, now_ms), _STYLES.get(claim.status, "cyan")
            for act in work.acts:
                yield depth + 2, act_line(act), "yellow"


def _drawn(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Draw the branches, from the last line up: a branch goes on down to its next line."""
    lines = []
    goes_on = [False] * (MAX_DEPTH + 3)  # by depth; a message has jobs, and these have claims
    for depth, text, style in reversed(rows):
        passed = "".join("│  " if goes_on[level] else "   " for level in range(1, depth))
        own = "" if not depth else "├─ " if goes_on[depth] else "└─ "
        lines.append((passed + own, text, style))
        goes_on[depth] = True
        goes_on[depth + 1 :] = [False] * (len(goes_on) - depth - 1)
    return lines[::-1]


def _job_text(job: Job) -> str:
    text = f"queue {job.queue}: {job.state}, {begun_attempts(job)} of {job.max_attempts} attempts"
    if job.state == "queued":
        text += f", {_waits_for(job)}"
    return f"{text}: {job.error}" if job.error else text


def _waits_for(job: Job) -> str:
    if job.gate == "time":
        return f"until {format_ts(job.available_at_ms)}"
    return "waits for a worker" if job.gate == "open" else f"after others with {job.dedupe_key}"


def _claim_text(claim: ClaimRecord, now_ms: int) -> str:
    state = claim.state(now_ms)
    status = claim.status if state == "terminal" else state
    text = f"claim {claim.token}: {status}, attempt {claim.attempt}, by {claim.instance}"
    text += f", from {format_ts(claim.claimed_at_ms)}"
    if claim.ended_at_ms is None:
        text += f", leased until {format_ts(claim.lease_until_ms)}"
    else:
        text += f" for {(claim.ended_at_ms - claim.claimed_at_ms) / 1000:.3f} s"
    if claim.exit_code is not None:
        text += f", exit {claim.exit_code}"
    return f"{text}: {claim.error}" if claim.error else text
