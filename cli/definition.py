"""The definition of commands: a function each, with an example for its help."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ..schema.errors import InvalidInput
from .hints import AGENT_VARIABLE
from .show.output import Output

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
        self._name, self._help, self._default = name, help, default
        self._makers: dict[str, Callable[[], Any]] = {}

    def command(self, name: str, *, example: str) -> Callable[[F], F]:
        """Define a command; its docstring is its help.

        A parameter may be a set of options that several commands share: a dataclass whose fields
        are options, each with a default. A parameter or field `output` is no option: it gets the
        output of the command line.
        """

        def command(function: F) -> F:
            self._makers[name] = partial(_make_command, name, function, example)
            return function

        return command

    def group(self, name: str, help: str, *, default: str | None = None) -> Commands:
        """Define a group of commands within these; `default` is run where none of it is named."""
        group = Commands(name, help, default)
        self._makers[name] = group._make_group
        return group

    def include(self, others: Commands) -> None:
        """Take in the commands of another file."""
        self._makers |= others._makers

    def click_commands(self) -> Mapping[str, Any]:
        """Return what the parser makes of these commands and groups, by name."""
        return LazyCommands(self._makers)

    def _make_group(self) -> Any:
        group: Any = (TyperGroup if self._default is None else _group_with(self._default))(
            name=self._name,
            help=self._help,
            no_args_is_help=True,
            rich_markup_mode=None,
        )
        group.commands = self.click_commands()
        return group


class LazyCommands(Mapping[str, Any]):
    """Commands by name; each is made when it is looked up for the first time.

    Args:
        makers: a function for each name, which makes the command.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def normalized(command: Any, args: list[str]) -> list[str]:
    """Return a command line in the spelling that its command takes.

    Where a command takes the agent as an argument, --agent may name it too. If the line has a
    command after `--` and no agent before it, the one of BUS_AGENT is inserted.
    """
    end = args.index("--") if "--" in args else len(args)
    own, rest = list(args[:end]), args[end:]
    options = {name: parameter for parameter in command.params for name in parameter.opts}
    words = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    if "--agent" in options or not words or words[0].metavar != "AGENT":
        return own + rest
    for index, word in enumerate(own):
        if word == "--agent" and index + 1 < len(own):
            return [own[index + 1], *own[:index], *own[index + 2 :], *rest]
        if word.startswith("--agent="):
            return [word.removeprefix("--agent="), *own[:index], *own[index + 1 :], *rest]
    runs = words[-1].nargs < 0 and rest
    agent = os.environ.get(AGENT_VARIABLE)
    return [agent, *own, *rest] if runs and agent and not _has_word(options, own) else own + rest


def _has_word(options: dict[str, Any], args: list[str]) -> bool:
    """Whether there is a word that is neither an option nor the value of one."""
    rest = iter(args)
    for word in rest:
        option = options.get(word)
        if option is not None and not (option.is_flag or option.count):
            next(rest, None)
        elif not word.startswith("-"):
            return True
    return False


class _Command(TyperCommand):
    """A command that refuses to take an option twice where only one value counts."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        return super().parse_args(ctx, normalized(self, args))

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            options, words, order = parse(args)
            for parameter, count in Counter(order).items():
                if count > 1 and _has_one_value(parameter) and not ctx.resilient_parsing:
                    name = max(parameter.opts, key=len)
                    raise InvalidInput(f"give {name} once; see '{ctx.command_path} --help'")
            return options, words, order

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


def _has_one_value(parameter: Any) -> bool:
    is_option = parameter.param_type_name == "option"
    return is_option and not (parameter.is_flag or parameter.multiple or parameter.count)


def _make_command(name: str, function: Callable[..., int], example: str) -> Any:
    program = typer.Typer(rich_markup_mode=None, add_completion=False)
    define = program.command(
        name, cls=_Command, epilog=f"Example:\n\n\b\n  {example}", no_args_is_help=False
    )
    define(_with_plain_parameters(function))
    return typer.main.get_command(program)


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


#: The parameter by which typer hands over the context of a command line, with its output.
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _with_plain_parameters(function: Callable[..., int]) -> Callable[..., int]:
    """Return a function that has the fields of the sets of options for parameters."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    sets: dict[str, Any] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    plain = [_CONTEXT]
    for name, parameter in parameters.items():
        if name in sets:
            plain += _fields(sets[name])
        elif hints[name] is not Output:
            plain.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            )

    def call(context: typer.Context, **values: Any) -> int:
        values["output"] = context.obj
        for name, kind in sets.items():
            values[name] = kind(**{field.name: values[field.name] for field in fields(kind)})
        return function(**{name: values[name] for name in parameters})

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = {
        plain_parameter.name: plain_parameter.annotation for plain_parameter in plain
    }
    call.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    return call


@cache  # most commands share the options that name the bus
def _fields(kind: type[Any]) -> list[inspect.Parameter]:
    """Return the options of a set as parameters."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
        if hints[field.name] is not Output
    ]
