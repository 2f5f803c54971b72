"""The command line: every command, under its group, in the order in which help lists them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import (
    agent_setup,
    agents,
    archiving,
    backups,
    blobs,
    conversations,
    dead,
    directory,
    doctor,
    files,
    git,
    guard,
    inboxes,
    jobs,
    keys,
    leases,
    limits,
    looking,
    mcp,
    messages,
    output,
    page,
    pictures,
    publishing,
    queues,
    reservations,
    searching,
    serving,
    shell,
    tokens,
    torturing,
    tracing,
    trust,
    verifying,
    working,
)
from .commands import Commands
from .usage import CommandLineError, show

_HELP = """A message bus for coding agents and the people who run them, in one SQLite file.

Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused or
conflict, 4 nothing there, 5 timed out.
"""

app = typer.Typer(
    name="bus",
    help=_HELP,
    epilog="Example:\n\n\b\n  bus init",
    no_args_is_help=True,
    add_completion=False,  # it would write to people's files; 'bus completion' prints
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
    rich_markup_mode=None,  # plain help reads the same in a pipe, and loads in half the time
    pretty_exceptions_enable=False,
)


def _print_version(on: bool) -> None:
    if on:
        from .. import __version__

        output.line(f"bus {__version__}")
        raise typer.Exit


@app.callback()
def _bus(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


for _group in (
    directory,
    publishing,
    messages,
    searching,
    inboxes,
    working,
    queues,
    jobs,
    dead,
    limits,
    conversations,
    tracing,
    pictures,
    agents,
    looking,
    leases,
    reservations,
    guard,
    blobs,
    archiving,
    files,
    git,
    backups,
    keys,
    trust,
    verifying,
    doctor,
    serving,
    page,
    tokens,
    mcp,
    torturing,
    shell,
    agent_setup,
):
    _commands: Commands = _group.commands
    _commands.add_to(app)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; errors of ours pass through."""
    command: Any = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="bus", standalone_mode=False)
    except CommandLineError as error:
        return show(error)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None  # typer's answer to a reader that left is exit 1
        raise
    return code if isinstance(code, int) else 0
