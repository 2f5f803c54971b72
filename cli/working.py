"""`bus run`: a worker whose work is a command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from . import actions, output
from .commands import Commands
from .options import Directory, User, Verbose
from .policy_options import RetryOptions

commands = Commands()


class Contract(StrEnum):
    """How a command and its worker speak with each other."""

    RAW = "raw"
    JSON = "json"


def _option(metavar: str, help: str) -> typer.models.OptionInfo:
    """Return the definition of an option that is absent unless it is given."""
    option: typer.models.OptionInfo = typer.Option(metavar=metavar, help=help, show_default=False)
    return option


Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="What to run for each message.")
]
Type = Annotated[str | None, _option("T", "The types of the messages to work on: a type pattern.")]
QueueName = Annotated[
    str | None,
    _option(
        "Q",
        "The queue. Default: named as the pattern, so that all workers of it share the work. "
        "One that is not there is made, and begins with the first message in the log.",
    ),
]
ContractName = Annotated[
    Contract,
    typer.Option(metavar="C", help="raw: body on stdin, result on stdout. json: one object each."),
]
SuccessType = Annotated[
    str | None,
    _option("S", "The type of the answer after success. Default: of x.request, x.done; else none."),
]
FailureType = Annotated[
    str | None,
    _option(
        "F",
        "The type of the answer after a failure for good. Default: of x.request, x.failed; else "
        "none. Whoever answers failures answers timeouts, with the request's type and .timed_out.",
    ),
]
NoAnswer = Annotated[
    bool,
    typer.Option(
        "--no-answer",
        help="Answer nothing: for a --queue that only looks on while others do what is asked.",
    ),
]
Concurrency = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many at once.")]
Timeout = Annotated[
    str | None,
    _option("S", "How long CMD may take; 0 for ever. Default: 60s, with the json contract 120s."),
]
Lease = Annotated[
    str | None,
    _option(
        "S",
        "How long a job waits for another worker when this one has died. Default: the timeout "
        "and 30s, or 300s without one.",
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
    _option(
        "G",
        "The class of workers: who sends the answers, and whose heart beats. Default: the "
        "queue's name and -worker.",
    ),
]
Config = Annotated[
    str | None, _option("JSON", "The config of the json contract; @FILE reads a file.")
]


@commands.command(
    "run", example="bus run --type review.request --concurrency 4 -- ./review --strict"
)
def run(
    command: Command,
    type: Type = None,
    queue: QueueName = None,
    contract: ContractName = Contract.RAW,
    success_type: SuccessType = None,
    failure_type: FailureType = None,
    no_answer: NoAnswer = False,
    concurrency: Concurrency = 1,
    timeout: Timeout = None,
    lease: Lease = None,
    once: Once = False,
    drain: Drain = False,
    group: Group = None,
    config: Config = None,
    *,
    policy: RetryOptions,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Work on the messages of a type: run a command for each.

    Raw contract: CMD reads the body (text as it is, else JSON) from stdin and prints the answer to
    stdout. Exit code 0 is success; any other is failure, and stderr, or else stdout, is the
    answer. Code 75 asks for another attempt, 78 forbids one. A queue that is made for this
    contract takes a failure for an answer; one made for json tries 4 times.

    The worker looks at the bus when it is woken, and every 250 ms anyway. It takes jobs until
    nothing is left, then waits again. It renews what it holds, ends CMD with all it started when
    its time is up (SIGTERM, 5 s, SIGKILL), and keeps up to 10 MiB of stdout and 64 KiB of stderr.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_QUEUE, BUS_ATTEMPT, BUS_MAX_ATTEMPTS, BUS_CLAIM_TOKEN,
    BUS_MESSAGE_ID, BUS_MESSAGE_SEQ, BUS_MESSAGE_TYPE, BUS_FROM, BUS_CORRELATION_ID, BUS_META_...
    for each entry of the header meta, and TRACEPARENT. SIGTERM and Ctrl-C end this when what runs
    has ended; a second one ends that too, and hands it back. After a kill -9, CMD runs on.

    A CMD that is not there at the start is refused with exit code 2, before anything is claimed.
    On a terminal, or with -v, it says on stderr what it works on.
    """
    from ..workers import Worker
    from . import hosting

    is_raw = contract is Contract.RAW
    rules = policy.rules()
    hosting.check_command(command[0])
    with actions.open_bus(directory, user) as bus:
        source = hosting.open_queue(bus, queue, type, is_raw=is_raw, rules=rules)
        timeout_s = hosting.timeout_s(timeout, is_raw=is_raw)
        worker = Worker(
            bus,
            source,
            group=group,
            concurrency=concurrency,
            lease_s=hosting.lease_s(lease, timeout_s),
            success_type=success_type,
            failure_type=failure_type,
            answers=not no_answer,
        )
        work = hosting.command_work(
            bus, command, is_raw=is_raw, group=worker.group, timeout_s=timeout_s, config=config
        )
        output.remark(
            f"working on queue {source.name!r}, which takes in {source.info.pattern}, with"
            f" {command[0]}: {contract} contract, {concurrency} at a time; Ctrl-C ends it"
        )
        return hosting.Running(worker).run(work, once=once, drain=drain)
