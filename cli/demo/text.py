"""Text helpers: plurals, and shortening to the width of the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap

from ..show import output


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shortened(path: str, columns: int) -> str:
    """Return a path that fits: its end tells more than its beginning, and whole parts most."""
    if len(path) <= columns:
        return path
    end = path[-(columns - 1) :]
    _, slash, whole_parts = end.partition("/")
    return f"…/{whole_parts}" if slash else f"…{end}"


def terminal_columns() -> int | None:
    """Return how wide the terminal of standard output is; None when it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def print_prose(text: str) -> None:
    """Print a line; on a terminal it is broken between words, never within one."""
    columns = terminal_columns()
    if columns is None:
        output.line(text)
        return
    shown = output.visible(text)
    indent = " " * (len(shown) - len(shown.lstrip()) + 2)
    for part in textwrap.wrap(
        shown, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]:
        output.line(part)
