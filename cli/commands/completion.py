"""Support for shells: completion, and a part of the prompt."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..definition import Commands, optional_word
from ..fast import prompt as action
from ..options.common import HERE, Place, Verbose
from ..show import output

commands = Commands()
completion = commands.group("completion", help="Shell completion of commands, options and names.")


@commands.command("prompt", example="PS1='$(bus prompt alice --format \"[{}] \")\\$ '")
def prompt(
    agent: Annotated[str | None, optional_word("[AGENT]", "Whose. Default: $BUS_AGENT.")] = None,
    format: Annotated[
        str, typer.Option(metavar="TEXT", help="The text to print; {} stands for the number.")
    ] = "{}",
    place: Place = HERE,
) -> int:
    """Print the number of unread messages, for a shell's prompt.

    Prints nothing when there are none, when there is no bus, and after any error, with exit code
    0; -v prints the reason. Counted up to 1,000. It starts in the time of about two bare Pythons.
    """
    return action.prompt(agent, format=format, directory=place.directory, user=place.user)


@completion.command("bash", example='eval "$(bus completion bash)"')
def bash(verbose: Verbose = False) -> int:
    """Print the completion script for bash. Put the example into ~/.bashrc."""
    from ..word_completion import BASH

    output.body(BASH)
    return 0


@completion.command("zsh", example='eval "$(bus completion zsh)"')
def zsh(verbose: Verbose = False) -> int:
    """Print the completion script for zsh. Put the example into ~/.zshrc, after compinit."""
    from ..word_completion import ZSH

    output.body(ZSH)
    return 0


@completion.command("words", example='bus completion words "bus publish --to al"')
def words(
    line: Annotated[str, typer.Argument(metavar="LINE", help="The line up to the cursor.")],
    verbose: Verbose = False,
) -> int:
    """Print the completions of the last word of a line, for other shells.

    Prints nothing when there is no bus. Exit code 4 when there is nothing to offer.
    """
    from ..word_completion import words

    command: Any = typer.main.get_command(_program())
    found = words(command, line)
    for word in found:
        output.line(word)
    return 0 if found else output.NOTHING


def _program() -> typer.Typer:
    from ..app import app  # which imports this module

    return app
