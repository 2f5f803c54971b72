"""Bounded attempts: how often, with which pauses, and the rest after the last."""

import pytest

from ackbus.tasks.agent_program import COOLDOWN_MS, JOB, WARM_UP, AttemptRule, BoundedAttempts


@pytest.mark.parametrize(
    ("rule", "pauses"), [(WARM_UP, [2_000, 4_000]), (JOB, [3_000])], ids=["warm-up", "job"]
)
def test_u_68_transient_failures_are_tried_again_then_rest(
    rule: AttemptRule, pauses: list[int]
) -> None:
    """U-68: warm-up 3 times 2,000 ms, a job 2 times 3,000 ms, doubling; then 20,000 ms offline."""
    attempts, now_ms = BoundedAttempts(rule), 1_000
    for pause_ms in pauses:
        attempts.begin()
        assert attempts.failed(now_ms) == pause_ms
        assert attempts.offline_ms(now_ms) == 0
    assert attempts.begin() == rule.attempts
    assert attempts.failed(now_ms) is None
    assert attempts.offline_ms(now_ms) == COOLDOWN_MS == 20_000
    assert attempts.offline_ms(now_ms + 19_999) == 1
    assert attempts.offline_ms(now_ms + 20_000) == 0
    assert attempts.begin() == 1


def test_end_begins_the_next_thing_from_one() -> None:
    attempts = BoundedAttempts(JOB)
    attempts.begin()
    attempts.failed(0)
    attempts.begin()
    attempts.end()
    assert attempts.begin() == 1


def test_pause_has_bounds() -> None:
    """U-68: a pause is 250 to 60,000 ms."""
    assert AttemptRule(9, 1).pause_after(1) == 250
    assert AttemptRule(9, 2_000).pause_after(5) == 32_000
    assert AttemptRule(9, 2_000).pause_after(6) == 60_000
    assert AttemptRule(999, 2_000).pause_after(998) == 60_000
