"""Errors of a command line, in our words instead of the parser's."""

from __future__ import annotations

import sys

# typer's own parser has no public name for its errors; pyproject.toml pins the minor version.
from typer._click.exceptions import (
    BadParameter,
    ClickException,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer._click.types import FloatParamType, FloatRange, IntRange

from .show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Every error of the parser.
CommandLineError = ClickException

#: Options that every command takes, and no group.
_OF_COMMANDS = frozenset({"--dir", "--user", "--json", "--verbose", "-v"})


def show(error: ClickException) -> int:
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
    """Whether the words up to the mistake name a group, and no command of it yet."""
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
