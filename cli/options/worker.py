"""The options of a worker that runs a command, and their values for `Worker`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

import typer

from ...bus.leases import MAX_LEASE_S
from ...schema.errors import InvalidInput
from ...schema.message.names import MAX_COUNT
from ...subscribers.jobs.errors import QueueMismatch
from ...subscribers.jobs.outcomes import MAX_HOPS, WARN_HOPS
from ...subscribers.jobs.policy import Policy
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from .. import arguments
from ..definition import optional
from ..show.jobs import option_of
from .payload import json_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...subscribers.options import Start
    from ...workers.json_contract import JsonCommand
    from ...workers.processes.supervisors import Supervisors
    from ...workers.raw_contract import RawCommand
    from ...workers.worker import Worker

# The options that set a queue's policy, each defined once, and their values for `Queue`.

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


#: The words that --addressed takes besides a name, and what they stand for.
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
        options = ((field.name, getattr(self, field.name)) for field in fields(self))
        return dict(_rule(name, value) for name, value in options if value is not None)


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
    bus: LocalBus,
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
        for rule, value in rules.items() if there.pattern == (pattern or name) else ():
            requested = Policy(**{rule: value})
            if getattr(there.policy, rule) != value:
                raise QueueMismatch(
                    f"queue {name!r} exists with --{option_of(rule)} {there.policy.said(rule)},"
                    f" not {requested.said(rule)}; change it with 'bus queue set'"
                ) from error
        raise


def _rule(name: str, value: Any) -> tuple[str, object]:
    """Return the name in `Policy` and the value of a rule that an option gave."""
    if isinstance(value, StrEnum):
        return name, value.value
    if name == "max_running":
        return name, _number_or_any(value)
    if name == "addressed":
        return name, _ADDRESSED.get(value, value)
    return (f"{name}_s", _duration(name, value)) if isinstance(value, str) else (name, value)


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


#: How much longer than the timeout of its command a job is leased, and how long without a timeout,
#: in seconds. Leases are renewed meanwhile: this is how long a job waits after its worker died.
_LEASE_BEYOND_S, _LEASE_S = 30.0, 300.0


class Contract(StrEnum):
    """The contract between a command and its worker."""

    RAW = "raw"
    JSON = "json"


Type = Annotated[str | None, optional("T", "The types of the messages to work on: a type pattern.")]
QueueName = Annotated[
    str | None,
    optional(
        "Q",
        "The queue. Default: named as the pattern, so that all its workers share the work. "
        "A missing one is created, and begins with the first message in the log.",
    ),
]
ContractName = Annotated[
    Contract,
    typer.Option(metavar="C", help="raw: body on stdin, result on stdout. json: one object each."),
]
SuccessType = Annotated[
    str | None,
    optional(
        "S", "The type of the answer after success. Default: of x.request, x.done; else none."
    ),
]
FailureType = Annotated[
    str | None,
    optional(
        "F",
        "The type of the answer after a failure for good. Default: of x.request, x.failed; else "
        "none. With it, timeouts are answered too, with the request's type and .timed_out.",
    ),
]
NoAnswer = Annotated[
    bool,
    typer.Option(
        "--no-answer",
        help="Answer nothing: for a --queue that only observes requests that others answer.",
    ),
]
Concurrency = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many at once.")]
Timeout = Annotated[
    str | None,
    optional("S", "How long CMD may take; 0 for ever. Default: 60s, with the json contract 120s."),
]
Lease = Annotated[
    str | None,
    optional(
        "S",
        "How long a job is this worker's without a renewal: after a death, another worker takes it "
        "so much later. Default: the timeout plus 30s, or 300s without one.",
    ),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once", help="Wait for one message, handle it, and end; with code 0 however CMD ended."
    ),
]
Drain = Annotated[bool, typer.Option("--drain", help="End when nothing is left to be claimed.")]
Group = Annotated[
    str | None,
    optional(
        "G",
        "The worker group: the sender of the answers and heartbeats. Default: the queue's "
        "name and -worker.",
    ),
]
WarnHops = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Warn of a conversation with so many hops; a job whose message another job "
        "published is one hop.",
    ),
]
MaxHops = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Refuse answers and events after so many hops, which ends a loop. The job fails "
        "for good.",
    ),
]
Config = Annotated[
    str | None, optional("JSON", "The config of the json contract; @FILE reads a file.")
]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of a worker, without its command and the policy of its queue."""

    type: Type = None
    queue: QueueName = None
    contract: ContractName = Contract.RAW
    success_type: SuccessType = None
    failure_type: FailureType = None
    no_answer: NoAnswer = False
    concurrency: Concurrency = 1
    timeout: Timeout = None
    lease: Lease = None
    once: Once = False
    drain: Drain = False
    group: Group = None
    config: Config = None
    warn_hops: WarnHops = WARN_HOPS
    max_hops: MaxHops = MAX_HOPS

    def open_queue(self, bus: LocalBus, rules: dict[str, Any]) -> Queue:
        """Open the queue to work on. A missing one is created.

        Raises:
            InvalidInput: neither a name nor a type is given.
            QueueNotFound: it does not exist, and no type is given to create it.
            QueueMismatch: it exists with another pattern, or another value of a given rule.
        """
        name = self.queue or self.type
        if name is None:
            raise InvalidInput("give the --type of the messages, or the --queue")
        pattern = self.type or Queue.open(bus, name).info.pattern
        group = self.group or f"{name}-worker"
        return make_queue(bus, name, pattern, rules, group=group)

    def worker(self, bus: LocalBus, queue: Queue) -> Worker:
        """Return the worker of a queue.

        Raises:
            InvalidInput: a duration is malformed, or too short or too long for a lease; or the
                type of an answer breaks a rule.
        """
        from ...workers.worker import Worker

        return Worker(
            bus,
            queue,
            group=self.group,
            concurrency=self.concurrency,
            lease_s=self._lease_s(),
            success_type=self.success_type,
            failure_type=self.failure_type,
            answers=not self.no_answer,
            warn_hops=self.warn_hops,
            max_hops=self.max_hops,
        )

    def work(
        self, bus: LocalBus, command: list[str], group: str, supervisors: Supervisors
    ) -> RawCommand | JsonCommand:
        """Return the work that a command does in its contract, for a class of workers.

        Raises:
            InvalidInput: the config is no JSON object, or the contract takes none.
        """
        from ...workers.json_contract import JsonCommand
        from ...workers.raw_contract import RawCommand

        shared: dict[str, Any] = {
            "group": group,
            "timeout_s": self._timeout_s(),
            "supervisors": supervisors,
        }
        if self._is_raw:
            if self.config is not None:
                raise InvalidInput("--config goes with --contract json only")
            return RawCommand(bus, command, **shared)
        config = {} if self.config is None else json_argument(self.config, "--config")
        if not isinstance(config, dict):
            raise InvalidInput("--config must be a JSON object")
        return JsonCommand(bus, command, config=config, **shared)

    @property
    def _is_raw(self) -> bool:
        return self.contract is Contract.RAW

    def _timeout_s(self) -> float | None:
        """Return how long a command may take, in seconds; None for ever."""
        from ...workers.json_contract import JSON_TIMEOUT_S
        from ...workers.raw_contract import RAW_TIMEOUT_S

        if self.timeout is None:
            return RAW_TIMEOUT_S if self._is_raw else JSON_TIMEOUT_S
        return arguments.seconds(self.timeout, "--timeout") or None

    def _lease_s(self) -> float:
        """Return how long a worker leases a job, in seconds."""
        timeout_s, most_s = self._timeout_s(), MAX_LEASE_S
        if self.lease is not None:
            given_s = arguments.seconds(self.lease, "--lease")
            if not 0 < given_s <= most_s:
                raise InvalidInput(f"--lease must be more than 0 and at most {most_s:g}s")
            return given_s
        return _LEASE_S if timeout_s is None else min(timeout_s + _LEASE_BEYOND_S, most_s)
