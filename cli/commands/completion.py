"""Support for shells: completion, and a part of the prompt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..definition import Commands, optional_word
from ..fast import prompt as action
from ..options.common import HERE, BusPlace, Verbose
from ..show.output import NOTHING, Output

commands = Commands()
completion = commands.group("completion", help="Completion for shells, and manual pages.")


@commands.command("prompt", example="PS1='$(bus prompt alice --format \"[{}] \")\\$ '")
def prompt(
    agent: Annotated[str | None, optional_word("[AGENT]", "Whose. Default: $BUS_AGENT.")] = None,
    format: Annotated[
        str, typer.Option(metavar="TEXT", help="The text to print; {} stands for the number.")
    ] = "{}",
    place: BusPlace = HERE,
) -> int:
    """Print the number of unread messages, for a shell's prompt.

    Prints nothing when there are none, when there is no bus, and after any error, with exit code
    0; -v prints the reason. Counted up to 1,000. It starts in the time of about two bare Pythons.
    """
    return action.prompt(
        place.output, agent, format=format, directory=place.directory, user=place.user
    )


@completion.command("bash", example='eval "$(bus completion bash)"')
def bash(output: Output, verbose: Verbose = False) -> int:
    """Print the completion script for bash. Put the example into ~/.bashrc."""
    from ..word_completion import BASH

    output.body(BASH)
    return 0


@completion.command("zsh", example='eval "$(bus completion zsh)"')
def zsh(output: Output, verbose: Verbose = False) -> int:
    """Print the completion script for zsh. Put the example into ~/.zshrc, after compinit."""
    from ..word_completion import ZSH

    output.body(ZSH)
    return 0


@completion.command("fish", example="bus completion fish | source")
def fish(output: Output, verbose: Verbose = False) -> int:
    """Print the completion script for fish. Put the example into ~/.config/fish/config.fish."""
    from ..word_completion import FISH

    output.body(FISH)
    return 0


@completion.command("man", example="bus completion man ~/.local/share/man/man1")
def man(
    output: Output,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where to write them; it is made.")
    ],
    verbose: Verbose = False,
) -> int:
    """Write manual pages into a directory: one for each command or group.

    'man bus-poll' and 'man bus-queue' show them, where DIR is man1 in a directory of 'manpath'.
    """
    from ..app import pages

    os.makedirs(directory, exist_ok=True)
    count = 0
    for count, (name, text) in enumerate(pages(_command()), 1):  # noqa: B007
        Path(directory, name).write_text(text, "utf-8")
    output.line(f"wrote {count} pages to {directory}")
    return 0


@completion.command("words", example='bus completion words "bus publish --to al"')
def words(
    output: Output,
    line: Annotated[str, typer.Argument(metavar="LINE", help="The line up to the cursor.")],
    verbose: Verbose = False,
) -> int:
    """Print the completions of the last word of a line, for other shells.

    Prints nothing when there is no bus. Exit code 4 where the word may be a file instead.
    """
    from ..word_completion import words

    completions = words(_command(), line)
    for word in completions or ():
        output.line(word)
    return NOTHING if completions is None else 0


def _command() -> Any:
    from ..app import app  # which imports this module

    return typer.main.get_command(app)
