"""`bus run`: a worker whose work is a command."""

from __future__ import annotations

from typing import Annotated

import typer

from . import output
from .commands import Commands
from .hosting import Running, check_command
from .options import HERE, Place
from .policy_options import NewQueueOptions
from .worker_options import WorkerOptions

commands = Commands()

Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="What to run for each message.")
]


@commands.command(
    "run", example="bus run --type review.request --concurrency 4 -- ./review --strict"
)
def run(
    command: Command,
    wanted: WorkerOptions,
    policy: NewQueueOptions,
    place: Place = HERE,
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
    for each entry of the header meta, and TRACEPARENT; never the host's own of these. SIGTERM and
    Ctrl-C end this when what runs has ended; a second one, or SIGQUIT, ends that too, and hands it
    back. On Linux, CMD and all that it has started end as well when this is killed.

    A CMD that is not there at the start is refused with exit code 2, before anything is claimed.
    On a terminal, or with -v, it says on stderr what it works on.
    """
    from ..workers import Supervisors

    rules = policy.rules()
    check_command(command[0])
    with place.open() as bus, Supervisors() as supervisors:
        queue = wanted.open_queue(bus, rules)
        worker = wanted.worker(bus, queue)
        work = wanted.work(bus, command, worker.group, supervisors)
        output.remark(
            f"working on queue {queue.name!r}, which takes in {queue.info.pattern}, with"
            f" {command[0]}: {wanted.contract} contract, {wanted.concurrency} at a time;"
            " Ctrl-C ends it"
        )
        return Running(worker).run(work, once=wanted.once, drain=wanted.drain)
