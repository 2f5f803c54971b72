"""The definition of commands: a function each, with an example for its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperGroup

F = TypeVar("F", bound=Callable[..., int])


def optional(metavar: str, help: str, *names: str, **bounds: Any) -> Any:
    """Return the definition of an option that is absent unless it is given.

    Args:
        metavar: the name of its value in help.
        help: its help.
        names: its names, where they don't follow from its parameter's.
        bounds: the least and the largest value of a number, `min` and `max`.
    """
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, **bounds)


def optional_word(metavar: str, help: str, **bounds: Any) -> Any:
    """Return the definition of an argument that may be left out, as `optional` does."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **bounds)


class Commands:
    """The commands of one file, under a name of their own (`bus lease …`) or at the top."""

    def __init__(
        self, name: str | None = None, help: str | None = None, default: str | None = None
    ) -> None:
        self._typer = typer.Typer(
            name=name,
            help=help,
            cls=TyperGroup if default is None else _group_with(default),
            no_args_is_help=True,
            rich_markup_mode=None,
        )
        self._within: list[Commands] = []

    def command(self, name: str, *, example: str) -> Callable[[F], F]:
        """Define a command; its docstring is its help.

        A parameter may be a set of options that several commands share: a dataclass whose fields
        are options, each with a default.
        """
        define = self._typer.command(
            name, epilog=f"Example:\n\n\b\n  {example}", no_args_is_help=False
        )

        def command(function: F) -> F:
            define(_with_plain_parameters(function))
            return function

        return command

    def group(self, name: str, help: str, *, default: str | None = None) -> Commands:
        """Define a group of commands within these; `default` is run where none of it is named."""
        group = Commands(name, help, default)
        self._within.append(group)
        return group

    def made(self) -> Mapping[str, Any]:
        """Return what the parser makes of these commands and groups, by name."""
        self._add_groups()
        program = typer.Typer(rich_markup_mode=None)
        program.add_typer(self._typer)
        return typer.main.get_group(program).commands

    def _add_groups(self) -> None:
        for group in self._within:
            group._add_groups()
            self._typer.add_typer(group._typer)


class OnDemand(Mapping[str, Any]):
    """The commands of a program by name; a module is loaded when a command of it is looked up.

    Args:
        homes: the module of `cli/commands/` that defines each command.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = import_module(f".commands.{self._homes[name]}", __package__)
            self._made.update(module.commands.made())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


def _group_with(default: str) -> type[TyperGroup]:
    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            is_option = args and args[0].startswith("-") and args[0] not in ctx.help_option_names
            is_bare = not args and not ctx.resilient_parsing  # completion offers the commands
            return super().parse_args(ctx, [default, *args] if is_option or is_bare else args)

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            if not incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            command: Any = self.commands[default]
            with command.make_context(default, [], parent=ctx, resilient_parsing=True) as inner:
                offered: list[Any] = command.shell_complete(inner, incomplete)
            return offered

    return Group


def _with_plain_parameters(function: Callable[..., int]) -> Callable[..., int]:
    """Return a function that has the fields of the sets of options for parameters."""
    hints = get_type_hints(function, include_extras=True)
    sets: dict[str, Any] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    if not sets:
        return function
    plain = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(function).parameters.items()
        for each in (
            _fields(sets[name]) if name in sets else [parameter.replace(annotation=hints[name])]
        )
    ]

    def call(**values: Any) -> int:
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in sets.items()
        }
        return function(**made, **values)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = {each.name: each.annotation for each in plain}
    call.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    return call


@cache  # most commands have the options of their place
def _fields(kind: type[Any]) -> list[inspect.Parameter]:
    """Return the fields of a set of options as parameters."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
