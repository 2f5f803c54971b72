"""Testing a disk, and the bus on it, by breaking the bus on purpose."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from .commands import Commands
from .options import Json, Verbose

commands = Commands()


@commands.command("torture", example="bus torture --agents 35 --minutes 5")
def torture(
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIRECTORY]",
            help="An empty directory on the disk to test, or one to make. Default: a new one here.",
            show_default=False,
        ),
    ] = None,
    agents: Annotated[
        int, typer.Option(metavar="N", min=8, max=500, help="How many processes.")
    ] = 35,
    minutes: Annotated[
        float, typer.Option(metavar="M", min=0.02, help="For how long, without the proof.")
    ] = 1.0,
    kill_every: Annotated[
        float,
        typer.Option(
            metavar="S", min=0, help="Seconds between two kills, on average; 0 kills nobody."
        ),
    ] = 0.3,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="What chance is made from. Default: another one each time.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the bus and the histories there in any case.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Test the disk: agents use a bus, are killed at random, and nothing may be lost.

    Publishers, readers, workers, holders of leases, an exporter and an archiver work on a bus of
    their own, and are ended with SIGKILL, suspended, and started again. Each writes down what it
    was told. Then it is proved over that and over the files that no acknowledged message is
    missing or doubled, that every inbox came in order, that no lease and no job was held twice,
    that each job has one answer, and that bus.jsonl is what a rebuild writes. What was made is
    removed if all proofs hold. Exit code 1 when one fails.
    """
    from .torture import Plan, run_torture

    chosen = random.randrange(2**32) if seed is None else seed
    return run_torture(Plan(agents, minutes, kill_every, chosen), directory, keep=keep, json=json)
