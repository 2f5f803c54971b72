"""The next time of a rule."""

from datetime import tzinfo

from ackbus.automation.schedules.recurrence import CronRule


def next_after(rule: CronRule, at_ms: int, zone: tzinfo) -> int | None:
    """The next time after another, in epoch milliseconds; None when there is none."""
    return next(rule.times_after(at_ms, zone), None)
