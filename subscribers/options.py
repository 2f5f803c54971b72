"""The options that calls pass on to an inbox or to the policy of a queue, for type checkers."""

from __future__ import annotations

from typing import Literal, TypedDict


class InboxOptions(TypedDict, total=False):
    """The options of `Inbox`."""

    own_broadcasts: bool
    with_work: bool
    max_deliveries: int
    retry_pause_s: float
    recheck_s: float | None


class PolicyRules(TypedDict, total=False):
    """The rules of a queue: fields of `Policy`."""

    ordering: Literal["fifo", "priority"]
    ageing_s: float
    retry: Literal["contract", "failures", "asked"]
    max_attempts: int
    backoff_s: float
    on_lost: Literal["requeue", "fail", "dead"]
    max_running: int | None
    max_running_per_key: int
    dedupe_window_s: float
    hides: Literal["exact", "all", "none"]
    addressed: str | None
