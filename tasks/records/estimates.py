"""Budgets and estimates of requests and jobs, by their priority."""

from __future__ import annotations

import re
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: By priority, interactive first, in milliseconds: how long one that is ahead in line takes as a
#: rule, and how long waiting is within the budget.
SLOTS_MS = (20_000, 90_000, 240_000)
#: How long a job may run, by priority.
EXECUTION_MS = (300_000, 900_000, 1_800_000)
#: How long a job may take to finish after that.
FINALIZATION_MS = 120_000

#: The shortest budget that is given.
MIN_BUDGET_MS = 1_000
#: The longest one: ten years, as everywhere.
_MAX_BUDGET_MS = 315_360_000_000

_WHOLE = re.compile(r"\s*\+?(\d{1,15})")


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of a job, in milliseconds.

    Attributes:
        queue_wait_ms: how long it may wait for a worker.
        execution_ms: how long it may run.
        finalization_ms: how long it may take to finish after that.
    """

    queue_wait_ms: int
    execution_ms: int
    finalization_ms: int

    @classmethod
    def of(cls, payload: Mapping[str, Any], priority: int) -> Budgets:
        """Return the budgets that a payload asks for, itself or in `params.planning`.

        What it does not name, or names as something that is no positive number, has its default.
        """
        params = payload.get("params")
        planning = params.get("planning") if isinstance(params, dict) else None
        asked = planning if isinstance(planning, dict) else {}

        def budget(name: str, default_ms: int) -> int:
            return _given(payload.get(name)) or _given(asked.get(name)) or default_ms

        return cls(
            budget("queueWaitBudgetMs", SLOTS_MS[priority]),
            budget("executionBudgetMs", EXECUTION_MS[priority]),
            budget("finalizationBudgetMs", FINALIZATION_MS),
        )


def eta_ms(priority: int, place: int | None) -> int | None:
    """Return after how long a place in line is reached, as a rule; None without a place."""
    return None if place is None else SLOTS_MS[priority] * (place - 1)


def _given(value: object) -> int | None:
    """Return a budget in its bounds; None for what is no positive number."""
    if isinstance(value, str):
        found = _WHOLE.match(value)
        value = int(found[1]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
        return None
    return min(max(MIN_BUDGET_MS, int(value)), _MAX_BUDGET_MS)
