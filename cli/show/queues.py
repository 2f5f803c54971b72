"""The views of queues: records for programs, tables and lines for people."""

from __future__ import annotations

from ...schema.message.times import format_ts
from ...subscribers.jobs.json_records import state_of, stats_record
from ...subscribers.jobs.policy import POLICY_FIELDS
from . import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...subscribers.jobs.manual_acts import Act
    from ...subscribers.queues.queues import QueueInfo
    from ...subscribers.queues.statistics import QueueStats, Spread

#: The columns of a list of queues.
HEADINGS = (
    *("queue", "type", "state", "waiting", "delayed", "held", "running"),
    *("failed", "timed out", "dead", "oldest"),
)


def list_table(found: list[QueueStats]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """Return the headings and rows of a list of queues."""
    return HEADINGS, [_row(stats) for stats in found]


def _row(stats: QueueStats) -> Sequence[object]:
    return (
        *(stats.info.name, stats.info.pattern, state_of(stats)),
        *(stats.waiting, stats.delayed, stats.held, stats.running),
        *(stats.failed, stats.timed_out, stats.dead, duration(stats.oldest_wait_ms)),
    )


def show_table(found: list[QueueStats]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """Return the statistics of one queue, a row each."""
    (stats,) = found
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
        ("policy", policy_line(stats.info)),
        ("created", format_ts(stats.info.created_at_ms)),
        ("looked at", f"seq {stats.info.filled_seq}"),
    ]
    return ("queue", stats.info.name), rows


def print_lines(found: list[QueueStats]) -> None:
    """Print a line for each queue, or its JSON object, for watching in a pipe."""
    for stats in found:
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
    told = f": {act.detail}" if act.detail else ""
    return f"{act.act} by {act.who}, {format_ts(act.at_ms)}{told}"


def policy_line(info: QueueInfo) -> str:
    """Return a queue's policy in the words of the options."""
    return ", ".join(f"{option_of(rule)} {info.policy.said(rule)}" for rule in POLICY_FIELDS)


def _attempts(stats: QueueStats) -> str:
    return (
        f"{output.counted(stats.ended, 'attempt')} ended: {stats.completed:,} completed,"
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
