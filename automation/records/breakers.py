"""Circuit breakers: a scheduled command that fails again and again rests for a while.

Each belongs to a command of a plugin, and counts the scheduled jobs of the command that ended badly
one after the other. What people, webhooks and routes ask for runs all the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from ...schema.message.names import new_id
from ...schema.message.times import format_ts, parse_ts
from ...schema.queries import Table
from .facts import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...schema.engine import Engine
    from ..config.models import BreakerConfig
    from ..jobs.submission import Submission

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"

#: How many transitions of a plugin are shown.
MAX_SHOWN = 1000

_log = logging.getLogger("ackbus.automation.breakers")


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker.

    Attributes:
        plugin, command: the command that it guards.
        state: `closed`, `open` or `half_open`.
        failure_count: how many scheduled jobs in a row ended badly.
        opened_at: since when it is not closed, as RFC 3339; None while it is closed.
        last_failure_at, updated_at: the times of the last failure and the last change.
        last_job_id: the job that it counted last.
    """

    plugin: str
    command: str
    state: str = CLOSED
    failure_count: int = 0
    opened_at: str | None = None
    last_failure_at: str | None = None
    last_job_id: str | None = None
    updated_at: str = ""

    def row(self) -> tuple[object, ...]:
        """Return the values of the table's columns."""
        return (
            *(self.plugin, self.command, self.state, self.failure_count, self.opened_at),
            *(self.last_failure_at, self.last_job_id, self.updated_at),
        )


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a breaker's state, on record.

    Attributes:
        id: of the record.
        plugin, command: the breaker.
        from_state, to_state: what changed.
        failure_count: how many failures in a row there were then.
        reason: `failure_threshold`, `success`, `cooldown_elapsed` or `manual_reset`.
        job_id: the job whose end changed the state, or None.
        created_at: when, as RFC 3339.
    """

    id: str
    plugin: str
    command: str
    from_state: str | None
    to_state: str
    failure_count: int
    reason: str
    job_id: str | None
    created_at: str


class Breakers(Table):
    """The tables `circuit_breakers` and `circuit_breaker_transitions`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._rules: Mapping[str, BreakerConfig] = {}

    def use_rules(self, rules: Mapping[str, BreakerConfig]) -> None:
        """Use these rules of plugins from now on; a plugin without one has the default rule."""
        self._rules = rules

    def may_begin(self, plugin: str, command: str, submission: Submission) -> bool:
        """Return whether a scheduled job of a command may begin.

        After the rest one job decides whether the breaker closes. Unless one waits or runs, the
        caller submits it, in the transaction of this call.

        Args:
            plugin, command: the command that the breaker guards.
            submission: tells whether a scheduled job of the command waits or runs.
        """
        with self._engine.write():
            breaker = self.get(plugin, command)
            if breaker.state == CLOSED:
                return True
            if submission.outstanding(plugin, command, submitted_by="scheduler"):
                return False
            if breaker.state == OPEN:
                opened_ms = parse_ts(breaker.opened_at or "0")
                rest_ms = round(self._rule(plugin).reset_after_s * 1000)
                # A clock that was ahead wrote an `opened_at` still to come: that rest is over.
                if 0 <= self._engine.now_ms() - opened_ms < rest_ms:
                    return False
                self._change(breaker, HALF_OPEN, "cooldown_elapsed", None)
            return True

    def note(self, plugin: str, command: str, ok: bool, job_id: str, submitted_by: str) -> bool:
        """Count the end of a job, in the transaction that ends it.

        Returns:
            Whether this has opened the breaker.
        """
        if submitted_by != "scheduler":
            return False
        breaker = replace(self.get(plugin, command), last_job_id=job_id)
        if ok:
            self._succeeded(breaker, job_id)
            return False
        failed = replace(
            breaker,
            failure_count=breaker.failure_count + 1,
            last_failure_at=format_ts(self._engine.now_ms()),
        )
        reached = failed.failure_count >= self._rule(plugin).threshold
        if failed.state == HALF_OPEN or (failed.state == CLOSED and reached):
            self._change(failed, OPEN, "failure_threshold", job_id)
            return True
        self._store(failed)
        return False

    def reset(self, plugin: str) -> int:
        """Close all breakers of a plugin by hand; return how many were not closed."""
        with self._engine.write():
            tripped = [b for b in self.states() if b.plugin == plugin and b.state != CLOSED]
            for breaker in tripped:
                closed = replace(breaker, failure_count=0)
                self._change(closed, CLOSED, "manual_reset", None)
        return len(tripped)

    def get(self, plugin: str, command: str) -> Breaker:
        """Return a breaker; a closed one where nothing has been counted yet."""
        row = self._engine.row(SQL["breaker"], (plugin, command))
        return Breaker(plugin, command) if row is None else Breaker(*row)

    def states(self) -> list[Breaker]:
        """Return all breakers that have counted anything."""
        return [Breaker(*row) for row in self._engine.rows(SQL["breakers"])]

    def history(self, plugin: str) -> list[Transition]:
        """Return the transitions of a plugin's breakers, the oldest first."""
        rows = self._engine.rows(SQL["transitions_of_plugin"], (plugin, MAX_SHOWN))
        return [Transition(*row) for row in rows]

    def prune(self, before: str, limit: int) -> int:
        """Delete transitions of before a time, at most so many; return how many went."""
        return self._engine.count_changes(SQL["prune_transitions"], (before, limit))

    def _succeeded(self, breaker: Breaker, job_id: str) -> None:
        recovered = replace(breaker, failure_count=0)
        if breaker.state == CLOSED:
            self._store(recovered)
        else:
            self._change(recovered, CLOSED, "success", job_id)

    def _rule(self, plugin: str) -> BreakerConfig:
        if (rule := self._rules.get(plugin)) is None:
            from ..config.models import BreakerConfig  # not for those who only look at breakers

            return BreakerConfig()
        return rule

    def _change(self, breaker: Breaker, to_state: str, reason: str, job_id: str | None) -> None:
        at = format_ts(self._engine.now_ms())
        opened_at = {CLOSED: None, OPEN: at}.get(to_state, breaker.opened_at)
        values = (
            *(new_id(), breaker.plugin, breaker.command, breaker.state, to_state),
            *(breaker.failure_count, reason, job_id, at),
        )
        self._engine.change(SQL["add_transition"], values)
        self._store(replace(breaker, state=to_state, opened_at=opened_at))
        _log.warning(
            "the breaker of %s %s is %s, after %s failures: %s",
            *(breaker.plugin, breaker.command, to_state, breaker.failure_count, reason),
            extra={"plugin": breaker.plugin},
        )

    def _store(self, breaker: Breaker) -> None:
        updated = replace(breaker, updated_at=format_ts(self._engine.now_ms()))
        self._engine.change(SQL["set_breaker"], updated.row())
