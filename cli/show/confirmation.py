"""The question before an act that can't be undone; only a person at a terminal is asked."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ...schema.errors import Refused

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def confirm(act: str, yes: bool) -> None:
    """Ask a person whether to go on.

    In a pipe, in a script and for an agent there is no question.

    Args:
        act: the act, such as `cancel 3 jobs`.
        yes: whether it is decided already.

    Raises:
        Refused: the person did not say yes; nothing was changed.
    """
    if yes or not can_ask():
        return
    from .text import visible

    print(f"{visible(act)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed")
