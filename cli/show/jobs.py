"""Jobs, their traces and queues as commands print them."""

from __future__ import annotations

import orjson

from ...bus.errors import SegmentMissing
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.names import is_plain
from ...schema.message.times import format_ts
from ...subscribers.jobs.claims import ClaimRecord, Claims
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.json_records import (
    PLUGINS,
    claim_record,
    job_record,
    plugin_job_record,
    state_of,
    stats_record,
)
from ...subscribers.jobs.outcomes import RETRY, ManualActs
from ...subscribers.jobs.policy import POLICY_FIELDS
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from .message import print_in_full
from .output import NOTHING, Output, message_parts
from .text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...blobs.store import BlobStore
    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.jobs.outcomes import Act
    from ...subscribers.jobs.policy import Policy
    from ...subscribers.overview.trace import Trace
    from ...subscribers.queues.statistics import QueueStats, Spread

    #: How deep a line is, its text, and its style on a terminal.
    Row = tuple[int, str, str]

# The views of queues: records for programs, tables and lines for people.

#: The columns of a list of queues.
HEADINGS = (
    *("queue", "type", "state", "waiting", "delayed", "held", "running", "succeeded"),
    *("failed", "timed out", "dead", "oldest"),
)


def list_table(all_stats: list[QueueStats]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """Return the headings and rows of a list of queues."""
    return HEADINGS, [_queue_row(stats) for stats in all_stats]


def _queue_row(stats: QueueStats) -> Sequence[object]:
    return (
        *(stats.info.name, stats.info.pattern, state_of(stats)),
        *(stats.waiting, stats.delayed, stats.held, stats.running, stats.completed),
        *(stats.failed, stats.timed_out, stats.dead, duration(stats.oldest_wait_ms)),
    )


def show_table(all_stats: list[QueueStats]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """Return the statistics of one queue, a row each."""
    (stats,) = all_stats
    success = "-" if stats.success_rate is None else f"{stats.success_rate:.2%}"
    window = duration(round(stats.window_s * 1000))
    oldest = f", the oldest for {duration(stats.oldest_wait_ms)}" if stats.waiting else ""
    longest = f", the longest for {duration(stats.longest_run_ms)}" if stats.running else ""
    rows: list[Sequence[object]] = [
        ("type", stats.info.pattern),
        ("state", state_of(stats)),
        ("waiting", f"{stats.waiting:,}{oldest}"),
        ("delayed", f"{stats.delayed:,}"),
        ("held", f"{stats.held:,}"),
        ("running", f"{stats.running:,}{longest}"),
        (
            "ended badly",
            f"{stats.failed:,} failed, {stats.timed_out:,} timed out, {stats.dead:,} dead",
        ),
        (f"last {window}", _attempts(stats)),
        ("rate", rate(stats.rate_per_s)),
        ("success", success),
        ("wait", _spread(stats.wait)),
        ("run", _spread(stats.run)),
        ("policy", policy_line(stats.info.policy)),
        ("created", format_ts(stats.info.created_at_ms)),
        ("looked at", f"seq {stats.info.filled_seq}"),
    ]
    return ("queue", stats.info.name), rows


def print_lines(output: Output, all_stats: list[QueueStats]) -> None:
    """Print a line for each queue, or its JSON object, for watching in a pipe."""
    for stats in all_stats:
        counts = (
            f"{stats.waiting} waiting, {stats.delayed} delayed, {stats.held} held,"
            f" {stats.running} running, {stats.failed} failed, {stats.timed_out} timed out,"
            f" {stats.dead} dead, oldest {duration(stats.oldest_wait_ms)}, {rate(stats.rate_per_s)}"
        )
        line = f"{format_ts(stats.at_ms)}  {stats.info.name}  {state_of(stats)}  {counts}"
        output.result(stats_record(stats), line)


def acts_lines(acts: Iterable[Act]) -> list[str]:
    """Return the acts of people, a line each."""
    return [f"{'by hand:':<14}{act_line(act)}" for act in acts]


def act_line(act: Act) -> str:
    """Return an act of a person as a line."""
    detail = f": {act.detail}" if act.detail else ""
    return f"{act.act} by {act.who}, {format_ts(act.at_ms)}{detail}"


def policy_line(policy: Policy, *, without: Policy | None = None) -> str:
    """Return a policy in the words of the options, without the rules that another one has."""
    return ", ".join(
        f"{option_of(rule)} {policy.said(rule)}"
        for rule in POLICY_FIELDS
        if without is None or getattr(policy, rule) != getattr(without, rule)
    )


def _attempts(stats: QueueStats) -> str:
    return (
        f"{counted(stats.ended, 'attempt')} ended: {stats.completed:,} completed,"
        f" {stats.failures:,} failed, {stats.timeouts:,} timed out, {stats.lost:,} lost"
    )


def _spread(spread: Spread) -> str:
    if not spread.sample_size:
        return "-"
    times = (spread.p50_ms, spread.p95_ms, spread.avg_ms)
    p50, p95, average = map(duration, times)
    return f"p50 {p50}, p95 {p95}, average {average}, of {spread.sample_size:,}"


def rate(per_s: float) -> str:
    """Return a rate as text, in the smallest unit in which it is not too small."""
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_s * seconds >= 1 or unit == "h":
            return f"{per_s * seconds:,.1f}/{unit}"
    raise AssertionError  # the last unit is always taken


def duration(ms: float | None) -> str:
    """Return a duration as text, in the largest unit of which there is more than one."""
    if ms is None:
        return "-"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms / size:.0f} {unit}"
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def option_of(rule: str) -> str:
    """Return the option that sets a rule, without its dashes."""
    return rule.removesuffix("_s").replace("_", "-")


#: How much of an error a list shows, in characters, and of stderr, in lines.
_ERROR_CHARS, _STDERR_LINES = 60, 10

#: The states of queued jobs for people, by their gates.
_WAITING = {"open": "queued", "time": "delayed", "key": "held"}

#: Fields of a job's record that the output for people shows inside other fields.
_FOLDED = ("gate", "max_attempts")

_HEADINGS = ("queue", "seq", "type", "state", "attempts", "when", "error")


def queues_named(output: Output, bus: LocalBus, name: str | None) -> list[Queue]:
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
    return 0 if count else NOTHING


def jobs_named(
    output: Output, bus: LocalBus, seqs: Iterable[int], queue: str | None, state: str | None = None
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
    queues = {opened.name: opened for opened in queues_named(output, bus, queue)}
    jobs = []
    for seq in dict.fromkeys(seqs):
        job = _job_named(bus, seq, list(queues), state)
        jobs.append((queues[job.queue], job))
    return jobs


def _job_named(bus: LocalBus, seq: int, queues: Sequence[str], state: str | None) -> Job:
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


def print_jobs(output: Output, bus: LocalBus, jobs: Iterable[Job]) -> int:
    """Print jobs, and return how many there were."""
    if not output.is_json:
        rows = [_row(bus, job) for job in jobs]
        if rows:
            output.table(_HEADINGS, rows)
        return len(rows)
    count = 0
    for count, job in enumerate(jobs, 1):  # noqa: B007
        output.json_line(_record(bus, job))
    return count


def _record(bus: LocalBus, job: Job) -> dict[str, object]:
    type = _type_of(bus, job)
    return job_record(job) | ({} if type is None else {"type": type})


def _row(bus: LocalBus, job: Job) -> Sequence[object]:
    error = job.error or ""
    return (
        *(job.queue, job.seq, _what(bus, job), job_state(job)),
        *(f"{begun_attempts(job)}/{job.max_attempts}", _when(job, bus.now_ms())),
        error if len(error) <= _ERROR_CHARS else error[: _ERROR_CHARS - 1] + "…",
    )


def _what(bus: LocalBus, job: Job) -> str:
    """Return the type of a job's message, with the name of its task if it is about one."""
    message = _message_of(bus, job)
    payload = None if message is None or message.payload_ref is not None else message.payload
    task = payload.get("task") if isinstance(payload, dict) else None
    type = "?" if message is None else message.type
    return f"{type} {task}" if isinstance(task, str) and is_plain(task) else type


def _type_of(bus: LocalBus, job: Job) -> str | None:
    message = _message_of(bus, job)
    return None if message is None else message.type


def _message_of(bus: LocalBus, job: Job) -> Message | None:
    """Return a job's message; None when that is lost with a part of the archive."""
    try:
        return bus.log.at(job.seq)
    except SegmentMissing:
        return None


def job_state(job: Job) -> str:
    """Return the state of a job for people; for a queued job, what it waits for."""
    return _WAITING[job.gate] if job.state == "queued" else job.state


def begun_attempts(job: Job) -> int:
    """Return how many attempts at a job have begun, since it was last retried by hand.

    The `attempt` of a job that waits is the next one. So is that of a job that was ended while it
    waited: it became available after its last start.
    """
    next_not_begun = job.state == "queued"
    if job.state in ("cancelled", "dead"):
        next_not_begun = job.started_at_ms is None or job.started_at_ms < job.available_at_ms
    return job.attempt - 1 if next_not_begun else job.attempt


def _when(job: Job, now_ms: int) -> str:
    at_ms = job.ended_at_ms
    if at_ms is None:
        at_ms = job.started_at_ms if job.state == "running" else job.available_at_ms
    age_ms = now_ms - (at_ms or 0)
    return f"{duration(age_ms)} ago" if age_ms >= 0 else f"in {duration(-age_ms)}"


# One job in full ------------------------------------------------------------------------------


def print_job(output: Output, bus: LocalBus, queue: Queue, job: Job) -> None:
    """Print a job, its message, every attempt at it, and the acts of people on it."""
    claims = Claims.of(bus).of_job(queue.info, job.seq)
    acts = ManualActs.of(bus).of_job(queue.info, job.seq)
    now_ms = bus.now_ms()
    message = bus.log.at(job.seq)
    assert message is not None  # the log keeps every message, and jobs are made of messages
    if output.is_json:
        attempts = [claim_record(claim, now_ms) for claim in claims]
        stored = orjson.Fragment(message.to_json())
        by_hand = [act.record() for act in acts]
        record = job_record(job)
        if job.queue.startswith(PLUGINS):
            record |= plugin_job_record(job, message)
        output.json_line(record | {"message": stored, "attempts": attempts, "acts": by_hand})
        return
    begun = begun_attempts(job)
    attempts_text = f"{begun} of {job.max_attempts}"
    if len(claims) > begun:
        since = "since the last retry by hand, " if RETRY in {act.act for act in acts} else ""
        attempts_text += f", {since}{len(claims)} in all"
    record = job_record(job) | {"state": job_state(job), "attempt": attempts_text}
    fields = {name: value for name, value in record.items() if name not in _FOLDED}
    _print_fields(
        output, {"attempts" if name == "attempt" else name: fields[name] for name in fields}
    )
    for event in in_order(claims, acts):
        output.line("")
        if isinstance(event, ClaimRecord):
            _print_claim(output, event, now_ms)
        else:
            output.line(*acts_lines([event]))
    output.line("")
    print_in_full(output, message, bus)


def in_order(claims: Sequence[ClaimRecord], acts: Sequence[Act]) -> list[ClaimRecord | Act]:
    """Return the attempts at a job and the acts on it in the order in which they happened."""
    timed: list[tuple[int, ClaimRecord | Act]] = [(claim.claimed_at_ms, claim) for claim in claims]
    timed += [(act.at_ms, act) for act in acts]
    return [event for _, event in sorted(timed, key=lambda pair: pair[0])]


def _print_claim(output: Output, claim: ClaimRecord, now_ms: int) -> None:
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
    ending = {
        "exit code": claim.exit_code,
        "error": claim.error,
        "result": claim.result,
        "logs": claim.logs,
    }
    _print_fields(
        output, fields | {name: value for name, value in ending.items() if value not in (None, "")}
    )
    _print_stderr(output, claim.stderr)


def _print_stderr(output: Output, stderr: str | None) -> None:
    lines = (stderr or "").splitlines()
    for part in lines[:_STDERR_LINES]:
        output.line(f"{'stderr:':<14}{part}")
    if len(lines) > _STDERR_LINES:
        more = counted(len(lines) - _STDERR_LINES, "more line")
        output.line(f"{'stderr:':<14}… {more}; --json shows all")


def _print_fields(output: Output, fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        output.line(f"{f'{name}:'.replace('_', ' '):<14}{value}")


# A trace as a tree of lines for people.

#: How deep the tree is drawn; deeper messages are drawn at this depth, since two agents may answer
#: each other for long.
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
        yield depth, "  ".join(message_parts(step.message, blobs)), style
        for work in step.work:
            yield depth + 1, _job_text(work.job), _STYLES.get(work.job.state, "cyan")
            for event in in_order(work.claims, work.acts):
                if isinstance(event, ClaimRecord):
                    text, style = _claim_text(event, now_ms), _STYLES.get(event.status, "cyan")
                else:
                    text, style = act_line(event), "yellow"
                yield depth + 2, text, style


def _drawn(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Draw the branches, last line first: so it is known if a later line has the same depth."""
    lines = []
    has_later = [False] * (MAX_DEPTH + 3)  # by depth; a message has jobs, and these have claims
    for depth, text, style in reversed(rows):
        bars = "".join("│  " if has_later[level] else "   " for level in range(1, depth))
        elbow = "" if not depth else "├─ " if has_later[depth] else "└─ "
        lines.append((bars + elbow, text, style))
        has_later[depth] = True
        has_later[depth + 1 :] = [False] * (len(has_later) - depth - 1)
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
