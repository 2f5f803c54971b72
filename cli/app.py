"""The command line as a whole: its help, and the command that a line calls."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .catalogue import GROUPS, MODULES
from .definition import OnDemand
from .show import output
from .usage_errors import CommandLineError, show

_HELP = """A message bus for coding agents and the people who run them, in one SQLite file.

Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused or
conflict, 4 nothing there, 5 timed out.
"""


def _load(name: str) -> Any:
    module = import_module(f".commands.{MODULES[name]}", __package__)
    return module.commands.made()[name]


class _Program(TyperGroup):
    """The program: a command's module is loaded when it is called, and none for help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = OnDemand({name: partial(_load, name) for name in MODULES})
        self.commands = commands  # nothing is added to it, as typer's own type would allow

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group."""
        width = max(map(len, MODULES))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", summary) for name, (_, summary) in commands.items()]
                formatter.write_dl(rows)


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


@cache
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
