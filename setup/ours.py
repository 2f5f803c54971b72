"""The marks of an entry of ours in the configuration of other programs."""

from __future__ import annotations

import os
import shlex
from itertools import pairwise

from ..schema.errors import Refused

#: The name of our entry, in every configuration.
ENTRY = "ackbus"


def check_ours(entry: object) -> None:
    """Refuse an entry of our name that runs another command: a person made it by hand."""
    if not is_bus_mcp(words_of(entry)):
        raise Refused(f"its entry {ENTRY!r} does not run 'bus mcp'; rename it, and try again")


def words_of(entry: object) -> list[str]:
    """Return the command line of an entry of any program; empty when it has none."""
    command = entry.get("command") if isinstance(entry, dict) else None
    arguments = entry.get("args", []) if isinstance(entry, dict) else []
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(arguments, list):
        return []
    return [str(word) for word in (*words, *arguments)]


def option_in(words: list[str], option: str) -> str | None:
    """Return the value of an option in a command line, or None."""
    for word, after in pairwise((*words, "")):
        if word == option:
            return after or None
        if word.startswith(f"{option}="):
            return word.partition("=")[2] or None
    return None


def bus_of(words: list[str]) -> str | None:
    """Return what names the bus in a command line; None: the working directory."""
    return "--user" if "--user" in words else option_in(words, "--dir")


def is_bus_mcp(words: list[str]) -> bool:
    """Whether a command line is that of our server."""
    return bool(words) and os.path.basename(words[0]) == "bus" and words[1:2] == ["mcp"]


def hook_mark(event: str, program: str) -> str:
    """Return the words that only the command of this hook has."""
    return f" hook {event} {program} "


def hook_command(words: list[str]) -> str:
    """Return a command line as a shell takes it, which is how hooks are run."""
    return shlex.join(words)
