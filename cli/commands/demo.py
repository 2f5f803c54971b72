"""The bus at work on a person's own files: demo."""

from __future__ import annotations

from typing import Annotated

import typer

from ...demo.run import run_demo
from ..definition import Commands
from ..demo.screen import Screen
from ..options.common import Json, Verbose, directory_option
from ..show import output

commands = Commands()

Directory = Annotated[
    str | None,
    directory_option("The bus directory to make and keep. Default: a fresh temporary directory."),
]


@commands.command("demo", example="bus demo src")
def demo(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder to examine.")] = ".",
    directory: Directory = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Show the bus at work on your own files.

    Agents examine every text file under PATH, and one of them is killed halfway.
    The bus is made in --dir DIR, else in a fresh temporary directory, and stays there.
    """
    return run_demo(path, directory=directory, screen=Screen(json=output.is_json()))
