"""The options of a worker that runs a command, and their values for `Worker`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from ...bus.leases import MAX_LEASE_S
from ...schema.errors import InvalidInput
from ...subscribers.jobs.errors import QueueMismatch
from ...subscribers.jobs.outcomes import MAX_HOPS, WARN_HOPS
from ...subscribers.jobs.policy import BOUNDS, CHOICES, Policy
from ...subscribers.queues.queue import Queue
from .. import arguments
from ..definition import optional
from ..show.jobs import option_of
from .payload import json_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus
    from ...subscribers.options import Start
    from ...workers.json_contract import JsonCommand
    from ...workers.processes.supervisors import Supervisors
    from ...workers.raw_contract import RawCommand
    from ...workers.worker import Worker

T = TypeVar("T")

# The options that set a queue's policy: each follows from its rule.

#: The word for no limit.
ANY = "any"

#: The words that --addressed takes besides a name, and what they stand for.
_ADDRESSED = {ANY: "*", "none": None}

#: The name of each rule's value in help, and its help.
_HELP = {
    "retry": (
        "R",
        "failures: every failure is retried. asked: a failure is the reply, and only exit code 75 "
        "asks for a retry. contract: like asked for raw commands, like failures for json and "
        "Python. Default: contract; with --max-attempts or --backoff, failures.",
    ),
    "max_attempts": ("N", "How many attempts a job has, lost ones included. Default: 4."),
    "backoff_s": ("D", "The pause before the second attempt; it doubles each time. Default: 30s."),
    "on_lost": (
        "P",
        "What becomes of the job of a lost worker: requeue, fail or dead. Default: requeue.",
    ),
    "addressed": (
        "NAME",
        "Also take in messages to this worker group or agent; any: to every agent; none: "
        "only broadcasts. Default: none; for a queue that bus run makes, its worker group.",
    ),
    "ordering": ("O", "fifo: oldest first. priority: most urgent first. Default: fifo."),
    "ageing_s": (
        "D",
        "With priority: how much older a job must be to go before one a step more urgent. "
        "Default: 1m.",
    ),
    "max_running": ("N", "How many jobs may run at once; any is no limit. Default: any."),
    "max_running_per_key": (
        "N",
        "How many jobs with the same dedupe key may run at once. Default: 1.",
    ),
    "dedupe_window_s": (
        "D",
        "How long a success excludes further jobs with its dedupe key. Default: 1d.",
    ),
    "hides": (
        "H",
        "Which of the messages that it takes in are kept out of inboxes. exact: all, if its "
        "pattern has no wildcard, else none. all: all of them. none: none. Default: exact.",
    ),
}


#: The types of the rules.
_TYPES = get_type_hints(Policy, localns={"Literal": Literal})


def _with_rules(*rules: str) -> Callable[[type[T]], type[T]]:
    """Give a set of options those of some rules."""

    def add(kind: type[T]) -> type[T]:
        options = [(rule, _option(rule), None) for rule in rules]
        about = {"__module__": __name__, "__doc__": kind.__doc__}
        return make_dataclass(
            kind.__name__, options, bases=(kind,), namespace=about, frozen=True, kw_only=True
        )

    return add


def _option(rule: str) -> Any:
    """Return the type of a rule's option. Durations, and numbers with a word, come as text."""
    kind: Any = _TYPES[rule]
    bounds: dict[str, Any] = {}
    if kind is int:
        bounds = dict(zip(("min", "max"), BOUNDS[rule], strict=True))
    elif rule not in CHOICES:
        kind = str
    return Annotated[kind | None, optional(*_HELP[rule], f"--{option_of(rule)}", **bounds)]


@_with_rules("retry", "max_attempts", "backoff_s", "on_lost", "addressed")
class NewQueueOptions:
    """The policy options of a queue that a worker makes."""

    def rules(self) -> dict[str, Any]:
        """Return the given rules, as `Queue.create` takes them.

        Raises:
            InvalidInput: a duration or a number is malformed.
        """
        options = vars(self).items()
        return {rule: _value(rule, value) for rule, value in options if value is not None}


@_with_rules(
    *("ordering", "ageing_s", "max_running", "max_running_per_key", "dedupe_window_s", "hides")
)
class PolicyOptions(NewQueueOptions):
    """All rules of a queue."""


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
        if error.rule is None:
            raise
        text = str(error).replace(f" {error.rule} ", f" --{option_of(error.rule)} ", 1)
        raise QueueMismatch(text, error.rule) from error


def _value(rule: str, value: Any) -> object:
    """Return the value of a rule that an option gave."""
    if rule == "max_running":
        return _number_or_any(value)
    if rule == "addressed":
        return _ADDRESSED.get(value, value)
    return _duration(rule, value) if rule.endswith("_s") else value


def _duration(rule: str, text: str) -> float:
    option = f"--{option_of(rule)}"
    seconds = arguments.seconds(text, option)
    least, most = BOUNDS[rule]
    if not least <= seconds <= most:
        raise InvalidInput(f"{option} {text} is too short or too long for a queue")
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
