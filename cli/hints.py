"""Completion of hints in messages: the commands in them get the --dir or --user of the bus.

The library raises errors without knowledge of the command line, so a hint is completed where it is
printed. A bus that BUS_DIR or the working directory names is found by the next command as well.
"""

from __future__ import annotations

#: The environment variable that names the agent.
AGENT_VARIABLE = "BUS_AGENT"

_named_by: tuple[str, ...] = ()


def note_bus(directory: str | None = None, user: bool = False) -> None:
    """Note the option that named the bus, for every hint from now on."""
    global _named_by
    if directory is not None:
        _named_by = ("--dir", directory)
    elif user:
        _named_by = ("--user",)


def completed(text: str) -> str:
    """Return a text with the option added to each command that it quotes, but not for help."""
    if not _named_by or "'bus " not in text:
        return text
    try:
        import re
        import shlex
    except OSError:  # no descriptor is left to load them with, and the text may say so
        return text

    option = shlex.join(_named_by)
    command = r"'(bus (?!help\b)[a-z][^']*)(?<!--help)'"
    return re.sub(command, lambda hint: f"'{hint[1]} {option}'", text)
