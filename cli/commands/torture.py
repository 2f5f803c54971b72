"""A test of a disk, and of the bus on it, by killing agents at random."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from ...torture.plan import Plan
from ...torture.run import run_torture
from ..definition import Commands, optional, optional_word
from ..options.common import Json, Verbose
from ..show import output
from ..show.reports.torture_report import Screen

commands = Commands()


@commands.command("torture", example="bus torture --agents 35 --minutes 5")
def torture(
    directory: Annotated[
        str | None,
        optional_word(
            "[DIRECTORY]",
            "An empty directory on the disk to test, or one to make. Default: a new one here.",
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
            metavar="S", min=0, help="Seconds between two kills, on average; 0: no kills."
        ),
    ] = 0.3,
    seed: Annotated[
        int | None, optional("N", "The seed of random choices. Default: another one each time.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the bus and the histories there in any case.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Test the disk: kill agents at random, and look for losses.

    Publishers, readers, workers, holders of leases, an exporter and an archiver work on a bus of
    their own, and are ended with SIGKILL, suspended, and started again. Each records the results
    of its calls. These histories and the files then prove that no acknowledged message is missing
    or doubled, that every inbox came in order, that no lease and no job was held twice, that each
    job has one answer, and that bus.jsonl is what a rebuild writes. The files are removed if all
    proofs hold. Exit code 1 when one fails.
    """
    chosen = random.randrange(2**32) if seed is None else seed
    return run_torture(
        Plan(agents, minutes, kill_every, chosen),
        directory,
        keep=keep,
        screen=Screen(json=output.is_json()),
    )
