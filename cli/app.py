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

from .. import __version__
from ..schema.errors import suggestion
from .catalogue import (
    FIRST,
    GROUPS,
    MODULES,
    OTHER_OPTIONS,
    POINTERS,
    POINTERS_IN_GROUPS,
    SYNONYMS,
    choices_of,
    meant_by,
)
from .definition import Group, LazyCommands, similar, write_missing
from .show.output import Output

# Errors of a command line, in our words instead of the parser's.

# typer's own parser has no public name for its errors; pyproject.toml pins the minor version.


#: Every error of the parser.
CommandLineError = ClickException

#: The parameters that are free text, which may begin with a dash.
_TEXTS = ("body", "words")

#: Options that every command takes, and no group.
_OF_COMMANDS = ("--dir", "--user", "--json", "--verbose", "-v")


def show(output: Output, error: ClickException) -> int:
    """Print the error on stderr in one line, and return the exit code."""
    if isinstance(error, NoArgsIsHelpError):  # a group without a command: help says what there is
        print(error.ctx.get_help(), file=sys.stderr)
        return error.exit_code
    context = error.ctx if isinstance(error, UsageError) else None
    reason = _reason(error)
    path = context.command_path if context else ""
    help = "bus help all" if path == "bus" else f"{path} --help"
    hint = f"; see '{help}'" if path and not reason.endswith("?") else ""
    output.error(reason + hint, error)
    return error.exit_code


def _reason(error: ClickException) -> str:
    if (
        isinstance(error, NoSuchOption)
        and error.option_name in _OF_COMMANDS
        and _is_of_group(error)
    ):
        return f"give {error.option_name} after the command"
    if isinstance(error, NoSuchOption):
        return _no_option(error)
    if error.message.startswith("Got unexpected extra argument"):
        words = error.message.partition(" (")[2].rstrip(").")
        params = error.ctx.command.params if error.ctx else []
        has_text = any(param.name in _TEXTS for param in params)
        advice = "; quote a text of several words" if has_text else ""
        return f"more words than it takes: {words}{advice}"
    if isinstance(error, BadParameter) and not isinstance(error, MissingParameter):
        rule = _rule(error)
        if rule:
            return f"{_name(error.param)} must be {rule}"
    return " ".join(error.format_message().split()).rstrip(".")


def _no_option(error: NoSuchOption) -> str:
    """Return the sentence about an unknown option, with those that it may mean."""
    params = error.ctx.command.params if error.ctx else []
    names = [name for param in params for name in (*param.opts, *param.secondary_opts)]
    names = ["--help", *(name for name in names if name.startswith("--"))]
    names += _OF_COMMANDS if _is_of_group(error) else ()
    typed = [error.option_name]
    if isinstance(error.__context__, NoSuchOption):  # `-type`: as a word, before its letters
        typed.insert(0, error.__context__.option_name)
    for option in typed:
        near = [name for name in meant_by(option, OTHER_OPTIONS) if name in names]
        if near := near or similar(option, names):
            return f"no option {option!a}{suggestion(near)}"
        if (option[0:2] != "--" and len(option) > 2) or option[1:].isdigit():
            for param in params:
                if param.name in _TEXTS:
                    return f"no option {option!a}; a text that begins with - goes after --"
    return f"no option {typed[-1]!a}"


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


_ABOUT = "A message bus for coding agents and the people who run them, in one SQLite file."

_EXAMPLE = ("bus init", "bus publish note 'Hello' --from ann --to bob", "bus poll bob")

_HELP = f"""{_ABOUT}

Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused or
conflict, 4 nothing there, 5 timed out.
"""


def _load(name: str) -> Any:
    module = import_module(f".commands.{MODULES[name]}", __package__)
    return module.commands.click_commands()[name]


class _RootGroup(Group):
    """The root group: a command's module is loaded when the command runs; help loads none."""

    synonyms = SYNONYMS

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = LazyCommands({name: partial(_load, name) for name in MODULES})
        self.commands = commands  # typer's type allows additions; there are none

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to start with, and where the others are: in 24 lines."""
        summaries = {name: text for group in GROUPS.values() for name, (_, text) in group.items()}
        self._write_usage(formatter)
        formatter.write(f"\n{_ABOUT}\n")
        with formatter.section("Start with"):
            formatter.write_dl([(name, summaries[name]) for name in FIRST])
        with formatter.section("Example"):
            for line in _EXAMPLE:
                formatter.write(f"  {line}\n")
        with formatter.section("More"):
            formatter.write_dl(
                [
                    ("bus help all", f"All {len(MODULES)} commands, by what they are for."),
                    ("bus help COMMAND", "How to use one: the same as bus COMMAND --help."),
                ]
            )

    def _write_usage(self, formatter: Any) -> None:
        formatter.write_usage("bus", "COMMAND [OPTIONS] [WORDS]...")

    def explain(self, ctx: Any, words: list[str]) -> Any:
        """Print all commands for `help all`, else help as in any group."""
        if words != ["all"]:
            return super().explain(ctx, words)
        formatter = ctx.make_formatter()
        self._write_usage(formatter)
        self.format_help_text(ctx, formatter)
        self._write_groups(formatter)
        ctx.obj.body(formatter.getvalue().rstrip("\n"))
        raise typer.Exit

    def _write_groups(self, formatter: Any) -> None:
        """Write all commands by group; where packages are missing, how to install them here."""
        width = max(map(len, MODULES))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", summary) for name, (_, summary) in commands.items()]
                formatter.write_dl(rows)
            write_missing(commands, formatter)

    def meant(self, path: str, word: str, rest: list[str]) -> list[str]:
        """Return the command lines that a word may mean which is no command."""
        if rest and (lines := self._within(rest[0], word)):  # as in `kubectl get pods`
            return lines
        lines = [f"bus {line}" for line in meant_by(word, POINTERS)]
        lines = lines or [f"bus {name}" for name in similar(word, self.commands)]
        return lines or [line for name in self.commands for line in self._within(name, word)][:3]

    def _within(self, noun: str, verb: str) -> list[str]:
        """Return the commands that a verb may mean within a group."""
        group = noun if noun in MODULES else noun.removesuffix("s")
        inner = getattr(self.commands[group], "commands", ()) if group in MODULES else ()
        verbs = [verb, SYNONYMS.get(verb, ""), *meant_by(verb, POINTERS_IN_GROUPS)]
        return [f"bus {group} {name}" for name in dict.fromkeys(verbs) if name in inner]


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
    paths = (path, *(f"{path} {word}" for word, _ in inner))
    for choices in map(choices_of, (words.partition(" ")[2] for words in paths)):
        lines += [".SH WHICH TO USE"] if choices else []
        for word, use in choices.items():
            lines += [".TP", f"\\fBbus {_text(word)}\\fR", _text(use)]
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
