"""How a command is defined: a function, and an example that its help shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

F = TypeVar("F", bound=Callable[..., int])


class Commands:
    """The commands of one file, under a name of their own (`bus lease …`) or at the top."""

    def __init__(self, name: str | None = None, help: str | None = None) -> None:
        self._typer = typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)
        self._within: list[Commands] = []

    def command(self, name: str, *, example: str) -> Callable[[F], F]:
        """Define a command; its docstring is its help."""
        return self._typer.command(
            name, epilog=f"Example:\n\n\b\n  {example}", no_args_is_help=False
        )

    def group(self, name: str, help: str) -> Commands:
        """Define a group of commands within these."""
        group = Commands(name, help)
        self._within.append(group)
        return group

    def add_to(self, app: typer.Typer) -> None:
        """Make these commands known to the program."""
        for group in self._within:
            group.add_to(self._typer)
        app.add_typer(self._typer)
