"""The list of trusted directories: add, list, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from ...schema.directory.ownership import (
    EVERY,
    add_safe_directory,
    contents,
    fault_of_list,
    remove_safe_directory,
    safe_directories,
    safe_list,
)
from ...schema.errors import NotFound
from ..definition import Commands
from ..options.common import Json, Verbose
from ..show import output

commands = Commands()
trust = commands.group(
    "trust", help="Trusted directories, whose files may act where they are found."
)

Trusted = Annotated[
    str,
    typer.Argument(metavar="DIR", help=f"The directory, or the folder of a bus; {EVERY} is all."),
]


@trust.command("add", example="bus trust add /srv/team/.worker-state")
def add(directory: Trusted, json: Json = False, verbose: Verbose = False) -> int:
    """Trust a directory, so that what commands find there may act.

    It may hold a bus of another user, which is refused where it is found unless you or root own it;
    a configuration or a crew, which starts and contacts nothing where it is only found in the
    working directory; plugins, or a repository. What it holds is printed. What an option, $BUS_DIR
    or $BUS_CONFIG names needs no trust. $BUS_SAFE_DIRECTORIES lists more directories, as PATH does.
    Whoever owns one can change all that is in it.
    """
    is_new = add_safe_directory(directory)
    held = [] if directory == EVERY else contents(directory)
    output.result(
        {"list": safe_list(), "added": is_new, "holds": held},
        f"{'added to' if is_new else 'already in'} {safe_list()}",
    )
    for each in held:
        output.note(f"trusted: {each}")
    return 0


@trust.command("list", example="bus trust list")
def show_list(json: Json = False, verbose: Verbose = False) -> int:
    """List the trusted directories, one a line. Exit code 4 when there are none."""
    if fault := fault_of_list():
        output.note(f"warning: {fault}")
    found = safe_directories()
    for directory in found:
        held = [] if directory == EVERY else contents(directory)
        output.result({"dir": directory, "holds": held}, directory)
    return 0 if found else output.NOTHING


@trust.command("remove", example="bus trust remove /srv/team/.worker-state")
def remove(directory: Trusted, json: Json = False, verbose: Verbose = False) -> int:
    """Remove a directory from the list. Exit code 4 when it is not on it."""
    if not remove_safe_directory(directory):
        raise NotFound(f"{directory} is not in {safe_list()}; see 'bus trust list'")
    output.result({"list": safe_list(), "removed": True}, f"removed from {safe_list()}")
    return 0
