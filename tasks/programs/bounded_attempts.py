"""Bounded attempts: how often something is tried, with which pauses, and the rest after that."""

from __future__ import annotations

from dataclasses import dataclass

#: The shortest and the longest pause between two attempts, in milliseconds.
LEAST_PAUSE_MS, MOST_PAUSE_MS = 250, 60_000

#: How long a worker is offline after its last attempt, in milliseconds.
COOLDOWN_MS = 20_000


@dataclass(frozen=True, slots=True)
class AttemptRule:
    """The rule how often something is tried.

    Attributes:
        attempts: how many times in all.
        pause_ms: the pause after the first attempt, in milliseconds; each next one is doubled.
    """

    attempts: int
    pause_ms: int

    def pause_after(self, attempt: int) -> int:
        """Return the pause after an attempt that failed, from 1, in milliseconds."""
        doubled = self.pause_ms << min(attempt - 1, 40)
        return max(LEAST_PAUSE_MS, min(doubled, MOST_PAUSE_MS))


#: Of what must work before a worker takes a job, and of one job.
WARM_UP, JOB = AttemptRule(3, 2_000), AttemptRule(2, 3_000)


class BoundedAttempts:
    """The attempts at one thing after the other. It is told the time, and never waits.

    Only a transient failure is tried again. After the last attempt that failed so, there is a rest,
    in which nothing is begun: what is broken for one job is broken for the next.

    Args:
        rule: how often one thing is tried.
        cooldown_ms: the rest, in milliseconds.
    """

    def __init__(self, rule: AttemptRule, cooldown_ms: int = COOLDOWN_MS) -> None:
        self._rule = rule
        self._cooldown_ms = cooldown_ms
        self._attempt = 0
        self._offline_until_ms = 0

    @property
    def attempt(self) -> int:
        """The number of the attempt under way, from 1; 0 before the first."""
        return self._attempt

    def begin(self) -> int:
        """Begin an attempt, and return its number."""
        self._attempt += 1
        return self._attempt

    def end(self) -> None:
        """Note that the thing is done, or has failed for good: the next one begins from 1."""
        self._attempt = 0

    def failed(self, now_ms: int) -> int | None:
        """Note a transient failure.

        Returns:
            The pause before the next attempt, in milliseconds; None: there is no more, and the rest
            has begun.
        """
        if self._attempt < self._rule.attempts:
            return self._rule.pause_after(self._attempt)
        self._attempt = 0
        self._offline_until_ms = now_ms + self._cooldown_ms
        return None

    def offline_ms(self, now_ms: int) -> int:
        """Return how long the rest lasts from now, in milliseconds; 0 outside of one."""
        # No longer than a whole rest: the clock may have been set back since it began.
        return max(0, min(self._offline_until_ms - now_ms, self._cooldown_ms))
