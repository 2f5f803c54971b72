"""The form of a crew file: for each field what its value must be.

A check returns what a value must be, or None where it is that.
"""

from __future__ import annotations

import re
import shlex

from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...schema.message.times import parse_duration_ms
from ..programs.presets import MODES, PRESETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Check = Callable[[Any], str | None]

#: How many workers a crew has at most.
MAX_WORKERS = 64

#: The name of a role is that of its log, too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

#: The name of a variable of the environment.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _map(value: Any) -> str | None:
    return None if isinstance(value, dict) else "a map"


def text(value: Any) -> str | None:
    """Check a text, or a number that is meant as one."""
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return None if is_text and "\0" not in str(value) else "text"


def _words(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() and "\0" not in value else "text"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def command(value: Any) -> str | None:
    """Check a command: a line for a shell's rules, or a list of words."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        words = None
    is_command = isinstance(words, list) and words and not any(map(text, words))
    return None if is_command else "a command: a text, or a list of words"


def _setup(value: Any) -> str | None:
    is_setup = _words(value) is None if isinstance(value, str) else command(value) is None
    return None if is_setup else "a line for the shell, or a list of words"


def _commands(value: Any) -> str | None:
    is_list = isinstance(value, list) and not any(map(_words, value))
    return None if is_list else "a list of commands, each a text"


def _duration(value: Any) -> str | None:
    try:
        text(value) or parse_duration_ms(str(value))
    except InvalidInput:
        return "a time as 90s or 30m"
    return None if text(value) is None else "a time as 90s or 30m"


def _count(least: int) -> Check:
    def check(value: Any) -> str | None:
        is_count = isinstance(value, int) and not isinstance(value, bool)
        good = is_count and least <= value <= MAX_WORKERS
        return None if good else f"a whole number of {least} to {MAX_WORKERS}"

    return check


def _one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"one of {', '.join(choices)}"


def _name(value: Any) -> str | None:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        return "a name of letters, digits, - and _"
    try:
        check_agent(value)
    except InvalidInput:
        return "a name that an agent may have"
    return None


#: Of the file itself.
TOP: Mapping[str, Check] = {
    "folder": _words,
    "environment": _map,
    "planner": _map,
    "workers": _map,
    "integrator": _map,
    "processes": _map,
}

#: Of each role.
ROLES: Mapping[str, Mapping[str, Check]] = {
    "planner": {"command": command, "timeout": _duration},
    "workers": {
        "count": _count(0),
        "max": _count(1),
        "name": _name,
        "command": command,
        "program": _one_of(*PRESETS),
        "permissions": _one_of(*MODES),
        "timeout": _duration,
        "review": _one_of("none", "required", "other"),
        "base": _words,
        "into": _words,
        "setup": _setup,
    },
    "integrator": {
        "into": _words,
        "check": _commands,
        "strategy": _one_of("merge", "cherry-pick", "ff"),
        "push": _flag,
        "remote": _words,
        "propose": _words,
        "batch": _count(1),
    },
}
