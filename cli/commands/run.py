"""`bus run`: a worker that runs a command."""

from __future__ import annotations

from typing import Annotated

import typer

from ..definition import Commands
from ..options.common import HERE, PlaceOnly
from ..options.policy import NewQueueOptions
from ..options.worker import WorkerOptions
from ..running.worker_host import Running, check_command
from ..show import output

commands = Commands()

Command = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="The command to run for each message.")
]


@commands.command(
    "run", example="bus run --type review.request --concurrency 4 -- ./review --strict"
)
def run(
    command: Command,
    wanted: WorkerOptions,
    policy: NewQueueOptions,
    place: PlaceOnly = HERE,
) -> int:
    """Work on the messages of a type: run a command for each.

    Raw contract: CMD reads the body (text as it is, else JSON) from stdin and prints the reply to
    stdout. Exit code 0 is success; any other is failure, and stderr, or else stdout, is the reply.
    Code 75 asks for a retry, 78 forbids one. A failure is the reply and not retried, unless the
    queue's --retry is failures; with the json contract it is retried, 4 attempts in all.

    The worker looks at the bus when it is woken, and every 250 ms anyway. It takes jobs until none
    is left, then waits again. It extends its claims, ends CMD and all its children at the timeout
    (SIGTERM, 5 s, SIGKILL), and keeps up to 10 MiB of stdout and 64 KiB of stderr.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_QUEUE, BUS_ATTEMPT, BUS_MAX_ATTEMPTS, BUS_CLAIM_TOKEN,
    BUS_MESSAGE_ID, BUS_MESSAGE_SEQ, BUS_MESSAGE_TYPE, BUS_FROM, BUS_CORRELATION_ID, BUS_META_...
    for each entry of the header meta, and TRACEPARENT; BUS_META_... and TRACEPARENT of the worker's
    own environment are not passed on. SIGTERM and Ctrl-C end the worker after its running jobs; a
    second one, or SIGQUIT, kills and releases those too. On Linux, CMD and all its children end as
    well when the worker is killed.

    A missing CMD is refused with exit code 2, before anything is claimed. On a terminal, or with
    -v, the worker prints its queue and its command on stderr.
    """
    from ...workers.processes.supervisors import Supervisors

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
        if queue.info.paused_at_ms is not None:
            name = queue.name
            output.note(f"queue {name!r} is paused: no job begins before 'bus queue resume {name}'")
        return Running(worker).run(work, once=wanted.once, drain=wanted.drain)
