"""Hints of what to run next: they repeat the --dir or --user by which the bus was named.

Whoever raises an error knows no command line, so a hint is completed where it is printed. A bus
that BUS_DIR or the working directory names is found by the next command as well.
"""

from __future__ import annotations

_named_by: tuple[str, ...] = ()


def note_bus(directory: str | None = None, user: bool = False) -> None:
    """Note by which option the bus was named, for every hint from now on."""
    global _named_by
    if directory is not None:
        _named_by = ("--dir", directory)
    elif user:
        _named_by = ("--user",)


def completed(text: str) -> str:
    """Return a text with the option in each command that it quotes; help needs none."""
    if not _named_by or "'bus " not in text:
        return text
    try:
        import re
        import shlex
    except OSError:  # there is no descriptor left to load them with, which may be what is told
        return text

    option = shlex.join(_named_by)
    return re.sub(r"'(bus [a-z][^']*)(?<!--help)'", lambda hint: f"'{hint[1]} {option}'", text)
