"""The entries of ours in the configuration of other programs, known by what they say.

Their place, their name and their layout are nobody's mark: people write so, too.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

#: The name of our entry, in every configuration.
ENTRY = "ackbus"


#: The options that some version of setup wrote, each with whether it has a value.
_OPTIONS = {
    "--agent": True,
    "--dir": True,
    "--user": False,
    "--profile": True,
    "--bodies": False,
    "--no-bodies": False,
}


def is_of_setup(words: Sequence[str], *verbs: str) -> bool:
    """Whether a command line is one that some version of setup wrote.

    It runs `bus` by its path, with these verbs, for a named agent, and has no option besides.
    """
    if not words or not os.path.isabs(words[0]) or os.path.basename(words[0]) != "bus":
        return False
    if tuple(words[1 : 1 + len(verbs)]) != verbs:
        return False
    left, had = list(words[1 + len(verbs) :][::-1]), set[str]()
    while left:
        option = left.pop()
        if option not in _OPTIONS or option in had or (_OPTIONS[option] and not left):
            return False
        had.add(option)
        if _OPTIONS[option]:
            left.pop()
    return "--agent" in had


def says_no_more(entry: Mapping[str, Any], ours: Mapping[str, Any], *but: str) -> bool:
    """Whether an entry has only members that setup writes, as it writes them.

    Args:
        entry: the entry as it stands.
        ours: the entry as setup writes it.
        but: members that differ from setup to setup.
    """
    return all(key in ours and (key in but or value == ours[key]) for key, value in entry.items())


#: The line for a person who has a server of our name.
SERVER_REFUSAL = f"its entry {ENTRY!r} is not as 'bus setup' writes it; rename it, and try again"


def is_server_of_setup(entry: object, ours: Mapping[str, Any], *, with_more: bool) -> bool:
    """Whether a server is one that some version of setup wrote.

    Args:
        entry: the server as it stands.
        ours: the server as setup writes it now.
        with_more: whether people may have added members to it.
    """
    if not isinstance(entry, dict) or not is_of_setup(words_of(entry), "mcp"):
        return False
    return with_more or says_no_more(entry, ours, "command", "args")


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


def runs_hook(command: object, mark: str) -> bool:
    """Whether a command line has the hook of a mark in it, whoever wrote it."""
    bus = rf"(?:^|[\s/'\"])bus['\"]?{re.escape(mark.rstrip())}(?:$|[\s'\";|&])"
    return isinstance(command, str) and re.search(bus, command) is not None


def is_hook_of_setup(command: object, mark: str) -> bool:
    """Whether a command line of a hook is one that some version of setup wrote."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # a quote without its end
        return False
    return is_of_setup(words, *mark.split()) and hook_command(words) == command


def hook_command(words: list[str]) -> str:
    """Return a command line as a shell takes it, which is how hooks are run."""
    return shlex.join(words)
