"""The options that set a queue's policy, each defined once, and what they mean for `Queue`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..schema import InvalidInput
from . import actions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The word for no limit.
ANY = "any"


def _option(metavar: str, help: str) -> typer.models.OptionInfo:
    """Return the definition of an option that leaves its rule alone unless it is given."""
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=help, show_default=False)
    return option


Ordering = Annotated[
    str | None, _option("O", "fifo: oldest first. priority: most urgent first. Default: fifo.")
]
Ageing = Annotated[
    str | None,
    _option(
        "D",
        "With priority: how much older a job goes before one that is a step more urgent. "
        "Default: 1m.",
    ),
]
Retry = Annotated[
    str | None,
    _option(
        "R",
        "failures: a failure is tried again. asked: it is an answer, and only exit status 75 "
        "brings another attempt. Default: failures; of a queue that bus run makes for the raw "
        "contract, asked.",
    ),
]
MaxAttempts = Annotated[
    int | None, _option("N", "How many attempts a job has, lost ones included. Default: 4.")
]
Backoff = Annotated[
    str | None,
    _option("D", "The pause before the second attempt; it doubles each time. Default: 30s."),
]
OnLost = Annotated[
    str | None,
    _option(
        "P",
        "When a worker is lost: requeue the job, fail it, or count it as dead. Default: requeue.",
    ),
]
MaxRunning = Annotated[
    str | None, _option("N", "How many jobs may run at once; any is no limit. Default: any.")
]
MaxRunningPerKey = Annotated[
    int | None, _option("N", "How many with the same dedupe key may run at once. Default: 1.")
]
DedupeWindow = Annotated[
    str | None,
    _option("D", "How long a success keeps others with its dedupe key out. Default: 1d."),
]


def policy_rules(
    *,
    ordering: str | None = None,
    ageing: str | None = None,
    retry: str | None = None,
    max_attempts: int | None = None,
    backoff: str | None = None,
    on_lost: str | None = None,
    max_running: str | None = None,
    max_running_per_key: int | None = None,
    dedupe_window: str | None = None,
) -> dict[str, Any]:
    """Return the rules that options gave, as `Queue.create` takes them; the others are left out.

    Raises:
        InvalidInput: a duration or a number is none.
    """
    rules: dict[str, Any] = {
        "ordering": ordering,
        "ageing_s": None if ageing is None else actions.seconds(ageing, "--ageing"),
        "retry": retry,
        "max_attempts": max_attempts,
        "backoff_s": None if backoff is None else actions.seconds(backoff, "--backoff"),
        "on_lost": on_lost,
        "max_running_per_key": max_running_per_key,
        "dedupe_window_s": (
            None if dedupe_window is None else actions.seconds(dedupe_window, "--dedupe-window")
        ),
    }
    given = {rule: value for rule, value in rules.items() if value is not None}
    if max_running is not None:
        given["max_running"] = _number_or_any(max_running)
    return given


def _number_or_any(text: str) -> int | None:
    if text == ANY:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidInput(f"--max-running must be a whole number of at least 1, or {ANY}")
    return int(text)
