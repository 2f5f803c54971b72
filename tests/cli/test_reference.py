"""docs/cli.md says what the command line really takes."""

import re
from typing import Any

import pytest

from . import reference


@pytest.mark.slow
def test_reference_is_rendered_from_the_commands() -> None:
    """U-80: the reference has every command, with its help as it is now."""
    assert reference.FILE.read_text("utf-8") == reference.render(), (
        "run: python tests/cli/reference.py --write"
    )


def test_help_describes_every_parameter() -> None:
    for path, command in reference.commands():
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)


def test_summaries_in_lists_of_commands_are_whole_sentences() -> None:
    """In 80 columns, where the list has the first sentence of each command's help."""
    lists: dict[str, dict[str, Any]] = {}
    for path, command in reference.commands():
        group, _, name = path.rpartition(" ")
        lists.setdefault(group, {})[name] = command
    del lists["bus"]  # help of the whole program reads the catalogue
    for group, commands in lists.items():
        room = 72 - max(map(len, commands))
        for name, command in commands.items():
            summary = command.get_short_help_str(room)
            assert re.fullmatch(r".*[^.]\.", summary), f"{group} {name}"
