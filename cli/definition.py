"""The definition of commands: a function each, with an example for its help."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ..schema.errors import InvalidInput, suggestion
from . import extras
from .catalogue import (
    EXTRAS,
    MODULES,
    POINTERS_IN_GROUPS,
    SECTIONS,
    SYNONYMS_IN_GROUPS,
    choices_of,
    meant_by,
)
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
        group: Any = (Group if self._default is None else _group_with(self._default))(
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


class Group(TyperGroup):
    """A group of commands. It understands `help`, words of other systems, and mistyped names."""

    #: Words that mean one command exactly.
    synonyms: Mapping[str, str] = SYNONYMS_IN_GROUPS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that a line names; a mistake says which ones it may mean."""
        word, *rest = args
        if word in self.commands or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if word.lower() == "help":
            return self.explain(ctx, rest)
        name = self.synonyms.get(word.lower(), "")
        if name in self.commands or name.startswith("-"):
            if name in self.commands:
                ctx.obj.remark(f"{word!a} is {name!a} here")
            return self.resolve_command(ctx, [name, *rest])
        path = ctx.command_path
        hint = suggestion(repr(line) for line in self.meant(path, word, rest))
        ctx.fail(f"'{path}' has no command {word[:_MAX_WORD]!a}{hint}")

    def explain(self, ctx: Any, words: list[str]) -> Any:
        """Print the help of a command that words name after `help`, or of this group."""
        if words:
            return self.resolve_command(ctx, [*words, "--help"])
        ctx.obj.body(ctx.get_help())
        raise typer.Exit

    def meant(self, path: str, word: str, rest: list[str]) -> list[str]:
        """Return the command lines that a word may mean which is no command of this group."""
        names = [name for name in meant_by(word, POINTERS_IN_GROUPS) if name in self.commands]
        names = names or similar(word, self.commands)
        return [f"{path} {name}" for name in names] or [f"bus {word}"] * (word in MODULES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, in sections where there are many."""
        if self.name not in SECTIONS:
            return super().format_commands(ctx, formatter)
        width = max(map(len, self.commands))
        for heading, names in SECTIONS[self.name].items():
            with formatter.section(heading):
                room = formatter.width - width - _BESIDE
                helps = [(name, self.commands[name].get_short_help_str(room)) for name in names]
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in helps])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what stands at the end of help."""
        _write_choices(ctx, formatter)
        super().format_epilog(ctx, formatter)


#: The columns of a list of commands that are neither the name nor the summary.
_BESIDE = 6

#: How much of a mistyped word is compared with names, and printed.
_MAX_WORD = 64

#: How alike a name is that a mistyped word may mean, from 0 to 1; and one that it begins.
_ALIKE, _BEGUN = 0.67, 0.9


def similar(word: str, names: Iterable[str]) -> list[str]:
    """Return the commands or options that a mistyped word may mean, the most similar first: three.

    Unlike for `near_names`, which compares names that anybody may have chosen, the beginning of a
    name is near to it, and `_` is `-`.
    """
    from difflib import SequenceMatcher  # for mistakes alone

    typed = _plain(word[:_MAX_WORD])
    scores: dict[str, float] = {}
    for name in names:
        plain = _plain(name)
        scores[name] = SequenceMatcher(None, typed, plain).ratio()
        if typed and plain.startswith(typed) and plain != typed:
            scores[name] = max(_BEGUN, scores[name])
    least = max(_ALIKE, max(scores.values(), default=0.0) - 0.05)
    near = [name for name, score in scores.items() if score >= least]
    return sorted(near, key=lambda name: -scores[name])[:3]


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-").casefold()


def _write_choices(ctx: Any, formatter: Any) -> None:
    """Write the commands that are taken for this one, and what is to be installed for it."""
    path = ctx.command_path.partition(" ")[2]
    if choices := choices_of(path):
        with formatter.section("Which to use"):
            formatter.write_dl([(f"bus {name}", use) for name, use in choices.items()])
    write_missing([path.partition(" ")[0]], formatter)


def write_missing(commands: Iterable[str], formatter: Any) -> None:
    """Write the lines, unbroken, that install what some of these commands lack."""
    by_extra: dict[str, list[str]] = {}
    for name in commands:
        if name in EXTRAS:
            by_extra.setdefault(EXTRAS[name], []).append(name)
    for extra, names in by_extra.items():
        if not extras.is_installed(extra):
            verb = "need" if names[1:] else "needs"
            formatter.write(f"\n  {', '.join(names)} {verb} more packages:\n")
            formatter.write(f"    {extras.install_command(extra)}\n")


class _Command(TyperCommand):
    """A command that refuses to take an option twice where only one value counts."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_choices(ctx, formatter)
        super().format_epilog(ctx, formatter)

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


def _group_with(default: str) -> type[Group]:
    class GroupWithDefault(Group):
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

    return GroupWithDefault


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
