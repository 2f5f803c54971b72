"""The command line: which commands there are, and in which module each is defined."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .definition import OnDemand
from .show import output
from .usage_errors import CommandLineError, show

_HELP = """A message bus for coding agents and the people who run them, in one SQLite file.

Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused or
conflict, 4 nothing there, 5 timed out.
"""

#: The module of each command, in the order in which help lists them.
_HOMES = {
    "init": "init",
    "upgrade": "init",
    "where": "init",
    "restore": "init",
    "stats": "init",
    "demo": "demo",
    "publish": "publish",
    "replay": "read",
    "read": "read",
    "show": "read",
    "tail": "read",
    "search": "search",
    "poll": "inbox",
    "ack": "inbox",
    "inbox": "inbox",
    "listen": "inbox",
    "parked": "inbox",
    "run": "run",
    "queue": "queue",
    "job": "job",
    "dead": "dead",
    "limit": "limit",
    "request": "request",
    "check": "request",
    "notify": "request",
    "trace": "trace",
    "inspect": "trace",
    "graph": "graph",
    "timeline": "graph",
    "agents": "agents",
    "heartbeat": "agents",
    "top": "top",
    "lease": "lease",
    "reserve": "reserve",
    "reservations": "reserve",
    "guard": "guard",
    "blob": "blob",
    "archive": "archive",
    "segments": "archive",
    "maintain": "archive",
    "export": "export",
    "import": "export",
    "log": "log",
    "setup": "setup",
    "backup": "backup",
    "key": "key",
    "trust": "trust",
    "verify": "verify",
    "chain": "verify",
    "doctor": "doctor",
    "serve": "serve",
    "ui": "ui",
    "token": "token",
    "mcp": "mcp",
    "torture": "torture",
    "prompt": "completion",
    "completion": "completion",
    "prime": "setup",
    "hook": "setup",
}


class _Program(TyperGroup):
    """The program: only the module of the command that is called is loaded, help loads all."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = OnDemand(_HOMES)  # nothing is added to it, as typer's own type would allow
        self.commands = commands


app = typer.Typer(
    name="bus",
    cls=_Program,
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


@functools.cache
def program() -> Any:
    """Return the parser of the whole command line."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; errors of ours pass through."""
    try:
        code = program().main(args=arguments, prog_name="bus", standalone_mode=False)
    except CommandLineError as error:
        return show(error)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None  # typer's answer to a reader that left is exit 1
        raise
    return code if isinstance(code, int) else 0
