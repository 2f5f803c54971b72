"""The command line as a whole: its help, and the command that a line calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer._click.exceptions import (
    BadParameter,
    ClickException,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer._click.types import FloatParamType, FloatRange, IntRange
from typer.core import TyperGroup

from .. import __version__
from .catalogue import GROUPS, MODULES
from .definition import LazyCommands
from .show.output import Output

# Errors of a command line, in our words instead of the parser's.

# typer's own parser has no public name for its errors; pyproject.toml pins the minor version.


#: Every error of the parser.
CommandLineError = ClickException

#: Options that every command takes, and no group.
_OF_COMMANDS = frozenset({"--dir", "--user", "--json", "--verbose", "-v"})


def show(output: Output, error: ClickException) -> int:
    """Print the error on stderr in one line, and return the exit code."""
    if isinstance(error, NoArgsIsHelpError):  # a group without a command: help says what there is
        print(error.ctx.get_help(), file=sys.stderr)
        return error.exit_code
    context = error.ctx if isinstance(error, UsageError) else None
    hint = f"; see '{context.command_path} --help'" if context else ""
    output.error(_reason(error) + hint, error)
    return error.exit_code


def _reason(error: ClickException) -> str:
    if (
        isinstance(error, NoSuchOption)
        and error.option_name in _OF_COMMANDS
        and _is_of_group(error)
    ):
        return f"give {error.option_name} after the command"
    if isinstance(error, BadParameter) and not isinstance(error, MissingParameter):
        rule = _rule(error)
        if rule:
            return f"{_name(error.param)} must be {rule}"
    return " ".join(error.format_message().split()).rstrip(".")


def _is_of_group(error: UsageError) -> bool:
    """Whether the line names a group, and no command of it, before the mistake."""
    return error.ctx is not None and hasattr(error.ctx.command, "commands")


def _rule(error: BadParameter) -> str | None:
    """Return the rule of a number, or None for another error."""
    kind = error.param.type if error.param else None
    if isinstance(error.__context__, ValueError):  # it is not a number at all
        return "a number" if isinstance(kind, FloatParamType) else "a whole number"
    if isinstance(kind, (IntRange, FloatRange)):
        return f"{kind.min} or more" + (f", and at most {kind.max}" if kind.max else "")
    return None


def _name(parameter: Any) -> str:
    """Return the name of a parameter on the command line."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar).strip("[.]")


_HELP = """A message bus for coding agents and the people who run them, in one SQLite file.

Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused or
conflict, 4 nothing there, 5 timed out.
"""


def _load(name: str) -> Any:
    module = import_module(f".commands.{MODULES[name]}", __package__)
    return module.commands.click_commands()[name]


class _RootGroup(TyperGroup):
    """The root group: a command's module is loaded when the command runs; help loads none."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = LazyCommands({name: partial(_load, name) for name in MODULES})
        self.commands = commands  # typer's type allows additions; there are none

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group."""
        width = max(map(len, MODULES))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", summary) for name, (_, summary) in commands.items()]
                formatter.write_dl(rows)


app = typer.Typer(
    name="bus",
    cls=_RootGroup,
    help=_HELP,
    epilog="Example:\n\n\b\n  bus init",
    no_args_is_help=True,
    add_completion=False,  # it would write to people's files; 'bus completion' prints
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
    rich_markup_mode=None,  # plain help reads the same in a pipe, and loads in half the time
    pretty_exceptions_enable=False,
)


def _print_version(context: typer.Context, on: bool) -> None:
    if on:
        context.obj.line(f"bus {__version__}")
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


def run(output: Output, arguments: list[str]) -> int:
    """Run a command line and return its exit code; errors of ours pass through."""
    try:
        code = program().main(args=arguments, prog_name="bus", standalone_mode=False, obj=output)
    except CommandLineError as error:
        return show(output, error)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None  # typer would exit with 1 when the reader has left
        raise
    return code if isinstance(code, int) else 0


# Manual pages of the commands, made of the definitions that --help is made of.


def pages(program: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page: `bus.1`, and one for each command or group.

    Args:
        program: the whole command line.
    """
    yield "bus.1", _page("bus", program, list(program.commands.items()))
    for name, command in program.commands.items():
        inner = list(getattr(command, "commands", {}).items())
        yield f"bus-{name}.1", _page(f"bus {name}", command, inner)


def _page(path: str, command: Any, inner: list[tuple[str, Any]]) -> str:
    first, _, rest = _prose(command.help).partition("\n\n")
    name = path.replace(" ", "-")
    lines = [
        f'.TH "{name.upper()}" 1 "" "ackbus {__version__}" "ackbus"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        *(_usage(path, command) if not inner else [_text(f"{path} COMMAND …")]),
    ]
    if rest:
        lines += [".SH DESCRIPTION", *_paragraphs(rest)[1:]]
    if inner and path == "bus":
        lines.append(".SH COMMANDS")
        for word, subcommand in inner:
            summary = _prose(subcommand.help).partition("\n\n")[0]
            lines += [".TP", f"\\fBbus\\-{_text(word)}\\fR(1)", _text(summary)]
    elif inner:
        for word, subcommand in inner:
            lines += [f'.SH "{path} {word}"', *_usage(f"{path} {word}", subcommand)]
            lines += [
                *_paragraphs(_prose(subcommand.help)),
                *_options(subcommand),
                *_example(subcommand),
            ]
    else:
        lines += [*_options(command, ".SH OPTIONS"), *_example(command, ".SH EXAMPLE")]
    if path != "bus":
        lines += [".SH SEE ALSO", "\\fBbus\\fR(1)"]
    return "\n".join([*lines, ""])


def _usage(path: str, command: Any) -> list[str]:
    arguments = [p.metavar or p.name.upper() for p in command.params if _kind(p) == "argument"]
    return [f"\\fB{_text(path)}\\fR {_text(' '.join(['[OPTIONS]', *arguments]))}"]


def _options(command: Any, heading: str = "") -> list[str]:
    """Return the entries of the arguments and options of a command."""
    entries = []
    for parameter in sorted(command.params, key=_kind):
        if getattr(parameter, "hidden", False):
            continue
        if _kind(parameter) == "argument":
            spelled = parameter.metavar or parameter.name.upper()
        else:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            takes = not (parameter.is_flag or parameter.count)
            spelled = f"{names} {parameter.metavar or 'VALUE'}" if takes else names
        entries += [".TP", f"\\fB{_text(spelled)}\\fR", _text(_help_of(parameter))]
    return [heading, *entries] if heading and entries else entries


def _help_of(parameter: Any) -> str:
    """Return the help of a parameter, with the default that --help shows beside it."""
    help = parameter.help or ""
    default = getattr(parameter, "default", None)
    is_shown = getattr(parameter, "show_default", False) and default is not None
    if not is_shown or getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
        return help
    return f"{help} Default: {default}."


def _example(command: Any, heading: str = ".PP") -> list[str]:
    example = (command.epilog or "").rpartition("\n")[2].strip()
    return [heading, ".nf", _text(example), ".fi"] if example else []


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (".PP", _text(part))]


def _prose(help: str | None) -> str:
    """Return help as paragraphs of one line each."""
    parts = (help or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _text(text: str) -> str:
    """Return a text escaped for one line of troff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def _kind(parameter: Any) -> str:
    kind: str = parameter.param_type_name
    return kind
