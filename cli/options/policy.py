"""The options that set a queue's policy, each defined once, and their values for `Queue`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

from ...schema.errors import InvalidInput
from ...schema.message.limits import MAX_COUNT
from ...subscribers.jobs.errors import QueueMismatch
from ...subscribers.jobs.policy import Policy
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from .. import arguments
from ..definition import optional
from ..show.queues import option_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.bus import Bus
    from ...subscribers.options import Start
    from ...subscribers.queues.queue import Queue

#: The word for no limit.
ANY = "any"


class OrderingName(StrEnum):
    """The order in which a queue hands out its jobs."""

    FIFO = "fifo"
    PRIORITY = "priority"


class RetryName(StrEnum):
    """The outcomes that are retried."""

    CONTRACT = "contract"
    FAILURES = "failures"
    ASKED = "asked"


class OnLostName(StrEnum):
    """The fate of a job whose worker is lost."""

    REQUEUE = "requeue"
    FAIL = "fail"
    DEAD = "dead"


class HidesName(StrEnum):
    """The messages of a queue that are not mail."""

    EXACT = "exact"
    ALL = "all"
    NONE = "none"


#: The words for whose addressed messages a queue takes in besides a name, and what they stand for.
_ADDRESSED = {ANY: "*", "none": None}


Ordering = Annotated[
    OrderingName | None,
    optional("O", "fifo: oldest first. priority: most urgent first. Default: fifo."),
]
Ageing = Annotated[
    str | None,
    optional(
        "D",
        "With priority: how much older a job must be to go before one a step more urgent. "
        "Default: 1m.",
    ),
]
Retry = Annotated[
    RetryName | None,
    optional(
        "R",
        "failures: every failure is retried. asked: a failure is the reply, and only exit code 75 "
        "asks for a retry. contract: like asked for raw commands, like failures for json and "
        "Python. Default: contract; with --max-attempts or --backoff, failures.",
    ),
]
MaxAttempts = Annotated[
    int | None,
    optional(
        "N", "How many attempts a job has, lost ones included. Default: 4.", min=1, max=MAX_COUNT
    ),
]
Backoff = Annotated[
    str | None,
    optional("D", "The pause before the second attempt; it doubles each time. Default: 30s."),
]
OnLost = Annotated[
    OnLostName | None,
    optional(
        "P",
        "What becomes of the job of a lost worker: requeue, fail or dead. Default: requeue.",
    ),
]
MaxRunning = Annotated[
    str | None, optional("N", "How many jobs may run at once; any is no limit. Default: any.")
]
MaxRunningPerKey = Annotated[
    int | None,
    optional(
        "N",
        "How many jobs with the same dedupe key may run at once. Default: 1.",
        min=1,
        max=MAX_COUNT,
    ),
]
DedupeWindow = Annotated[
    str | None,
    optional("D", "How long a success excludes further jobs with its dedupe key. Default: 1d."),
]


Hides = Annotated[
    HidesName | None,
    optional(
        "H",
        "Which of the messages that it takes in are kept out of inboxes. exact: all, if its "
        "pattern has no wildcard, else none. all: all of them. none: none. Default: exact.",
    ),
]
Addressed = Annotated[
    str | None,
    optional(
        "NAME",
        "Also take in messages to this worker group or agent; any: to every agent; none: "
        "only broadcasts. Default: none; for a queue that bus run makes, its worker group.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class NewQueueOptions:
    """The policy options of a queue that a worker makes."""

    retry: Retry = None
    max_attempts: MaxAttempts = None
    backoff: Backoff = None
    on_lost: OnLost = None
    addressed: Addressed = None

    def rules(self) -> dict[str, Any]:
        """Return the given rules, as `Queue.create` takes them.

        Raises:
            InvalidInput: a duration or a number is malformed.
        """
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return dict(_rule(name, value) for name, value in given if value is not None)


@dataclass(frozen=True, kw_only=True)
class PolicyOptions(NewQueueOptions):
    """All rules of a queue."""

    ordering: Ordering = None
    ageing: Ageing = None
    max_running: MaxRunning = None
    max_running_per_key: MaxRunningPerKey = None
    dedupe_window: DedupeWindow = None
    hides: Hides = None


def make_queue(
    bus: Bus,
    name: str,
    pattern: str | None,
    rules: dict[str, Any],
    start: Start = "beginning",
    group: str | None = None,
) -> Queue:
    """Create a queue, unless it exists, as `Queue.create` does; its errors name the options.

    Raises:
        InvalidInput: an argument breaks a rule.
        QueueMismatch: it exists with another pattern, or another value of a given rule.
    """
    try:
        return Queue.create(bus, name, pattern, start=start, group=group, **rules)
    except QueueMismatch as error:
        there = Queues(bus).get(name)
        for rule, wanted in rules.items() if there.pattern == (pattern or name) else ():
            given = Policy(**{rule: wanted})
            if getattr(there.policy, rule) != wanted:
                raise QueueMismatch(
                    f"queue {name!r} exists with --{option_of(rule)} {there.policy.said(rule)},"
                    f" not {given.said(rule)}; change it with 'bus queue set'"
                ) from error
        raise


def _rule(name: str, given: Any) -> tuple[str, object]:
    """Return the name in `Policy` and the value of a rule that an option gave."""
    if isinstance(given, StrEnum):
        return name, given.value
    if name == "max_running":
        return name, _number_or_any(given)
    if name == "addressed":
        return name, _ADDRESSED.get(given, given)
    return (f"{name}_s", _duration(name, given)) if isinstance(given, str) else (name, given)


def _duration(name: str, text: str) -> float:
    option = f"--{option_of(name)}"
    seconds = arguments.seconds(text, option)
    rules: dict[str, Any] = {f"{name}_s": seconds}
    try:
        Policy(**rules)
    except InvalidInput as error:
        raise InvalidInput(f"{option} {text} is too short or too long for a queue") from error
    return seconds


def _number_or_any(text: str) -> int | None:
    if text == ANY:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise InvalidInput(f"--max-running must be a whole number of at least 1, or {ANY}")
    return int(text)
