"""The list of trusted buses of other users: add, list, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from ...schema.directory.ownership import (
    EVERY,
    add_safe_directory,
    remove_safe_directory,
    safe_directories,
    safe_list,
)
from ...schema.errors import NotFound
from ..definition import Commands
from ..options.common import Json, Verbose
from ..show import output

commands = Commands()
trust = commands.group("trust", help="Trusted buses of other users, which commands may find.")

BusDirectory = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help=f"The bus directory, or the folder that it is in; {EVERY} is all."
    ),
]


@trust.command("add", example="bus trust add /srv/team/.worker-state")
def add(directory: BusDirectory, json: Json = False, verbose: Verbose = False) -> int:
    """Trust a bus that another user owns, so that commands may find it.

    Without that, a bus found upwards is refused unless you or root own it; one that --dir or
    $BUS_DIR names is always used. $BUS_SAFE_DIRECTORIES lists more of them, or of the folders that
    they are in, as PATH does. The owner of a bus can change everything in it.
    """
    is_new = add_safe_directory(directory)
    output.result(
        {"list": safe_list(), "added": is_new},
        f"{'added to' if is_new else 'already in'} {safe_list()}",
    )
    return 0


@trust.command("list", example="bus trust list")
def show_list(json: Json = False, verbose: Verbose = False) -> int:
    """List the trusted directories, one a line. Exit code 4 when there are none."""
    found = safe_directories()
    for directory in found:
        output.result({"dir": directory}, directory)
    return 0 if found else output.NOTHING


@trust.command("remove", example="bus trust remove /srv/team/.worker-state")
def remove(directory: BusDirectory, json: Json = False, verbose: Verbose = False) -> int:
    """Remove a directory from the list. Exit code 4 when it is not on it."""
    if not remove_safe_directory(directory):
        raise NotFound(f"{directory} is not in {safe_list()}; see 'bus trust list'")
    output.result({"list": safe_list(), "removed": True}, f"removed from {safe_list()}")
    return 0
