"""The fast way in for the plain forms of publish, poll, ack, prompt, hook and mcp.

It understands words, exact long options, and `--option=value`, as typer does; a test runs many
lines through both. Everything else (help, mistakes, rare options) it leaves to typer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..show.output import Output

_COMMON = {"--dir": "directory", "--user": "user", "--json": "json"}

#: The options of each command, and the parameters of its action that they set.
OPTIONS = {
    "publish": {
        **_COMMON,
        "--data": "data",
        "--file": "file",
        "--from": "from_agent",
        "--to": "to_agents",
        "--id": "id",
        "--reply-to": "reply_to",
        "--conversation": "conversation",
        "--priority": "priority",
        "--header": "header",
        "--payload-ref": "payload_ref",
        "--strict": "strict",
    },
    "poll": {**_COMMON, "--limit": "limit", "--type": "type", "--wait": "wait"},
    "ack": {**_COMMON},
    "prompt": {**_COMMON, "--format": "format"},
    "hook": {
        "--dir": "directory",
        "--user": "user",
        "--agent": "agent",
        "--no-bodies": "no_bodies",
        "--profile": "profile",
    },
    "mcp": {"--dir": "directory", "--user": "user", "--agent": "agent", "--profile": "profile"},
}

#: The positional parameters of each command, and how many of them it needs.
WORDS = {
    "publish": (("type", "body"), 1),
    "poll": (("agent",), 0),
    "ack": (("agent", "seq"), 2),
    "prompt": (("agent",), 0),
    "hook": (("event", "program"), 2),
    "mcp": ((), 0),
}

_FLAGS = {"user", "json", "strict", "no_bodies"}
_NUMBERS = {"limit", "seq"}
_REPEATABLE = {"header", "to_agents"}


def parse(output: Output, arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the action of a command line, to be called, or None when it is for typer.

    The form of the output is set as the line says.
    """
    values = parse_values(arguments)
    if values is None:
        return None
    output.name_bus(values.get("directory"), values.get("user", False))
    output.is_json = values.pop("json", False)
    call = action(arguments[0])
    return lambda: call(output, **values)


def action(command: str) -> Callable[..., int]:
    """Return the action of a command."""
    if command == "prompt":  # a shell waits for it before every line: it loads even less
        from .prompt import prompt

        return prompt
    if command == "hook":  # an agent waits for it after every tool
        from .agent_hooks import hook

        return hook
    if command == "mcp":  # an agent may begin before it has its tools
        from .mcp_server import mcp

        return mcp
    from . import actions

    function: Callable[..., int] = getattr(actions, command)
    return function


def parse_values(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the parameters of the action that a command line names, or None."""
    if not arguments or arguments[0] not in OPTIONS:
        return None
    options = OPTIONS[arguments[0]]
    values: dict[str, Any] = {}
    words: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "-" or not argument.startswith("-"):
            words.append(argument)
            continue
        option, equals, value = argument.partition("=")
        name = options.get(option)
        if name is None or (name in _FLAGS and equals):
            return None
        if name in _FLAGS:
            values[name] = True
        elif not _set(values, name, value if equals else next(rest, None)):
            return None
    names, needed = WORDS[arguments[0]]
    if not needed <= len(words) <= len(names):
        return None
    if not all(_set(values, *pair) for pair in zip(names, words, strict=False)):
        return None
    return values


def _set(values: dict[str, Any], name: str, value: str | None) -> bool:
    """Take a value over; False when it is not plain, or the second one."""
    if name in values and name not in _REPEATABLE:
        return False
    if value is None or (value.startswith("-") and value != "-"):
        return False
    if name in _NUMBERS:
        if not (value.isascii() and value.isdigit() and len(value) < 19):
            return False
        values[name] = int(value)
    elif name in _REPEATABLE:
        values.setdefault(name, []).append(value)
    else:
        values[name] = value
    return True
