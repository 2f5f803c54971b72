"""A command loads the module that defines it, and no other command's; help loads none."""

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ackbus.cli import app, commands
from ackbus.cli.catalogue import GROUPS, MODULES

from .loading import loaded_by


def modules_of_commands() -> dict[str, Any]:
    """Every module that defines commands, by its name."""
    names = [each.name for each in pkgutil.iter_modules(commands.__path__)]
    modules = {name: import_module(f"ackbus.cli.commands.{name}") for name in names}
    assert all(hasattr(module, "commands") for module in modules.values())
    return modules


def test_each_command_is_listed_with_the_module_that_defines_it() -> None:
    defined = {
        command: name
        for name, module in modules_of_commands().items()
        for command in module.commands.made()
    }
    assert defined == MODULES


def test_help_lists_the_first_sentence_of_each_command() -> None:
    listed = {name: summary for group in GROUPS.values() for name, (_, summary) in group.items()}
    own = {name: _first_sentence(command.help) for name, command in app.program().commands.items()}
    assert listed == own
    assert max(map(len, listed.values())) <= 62  # else a line of help would break at 80 columns


def _first_sentence(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".") + "."


@pytest.mark.parametrize("line", ["--help", "-h", "--version"])
def test_the_program_s_own_options_load_no_command(
    line: str, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    loads, printed = loaded_by([line], bus_dir.parent, bus_env)
    assert not {name for name in loads if name.startswith("ackbus.cli.commands.")}
    assert line == "--version" or all(f"  {name} " in printed for name in MODULES)


@pytest.mark.parametrize("line", ["queue list", "lease list", "limit list"])
def test_command_loads_no_other_command(line: str, bus_dir: Path, bus_env: dict[str, str]) -> None:
    loads, _ = loaded_by(line.split(), bus_dir.parent, bus_env)
    prefix = "ackbus.cli.commands."
    loaded = {name.removeprefix(prefix) for name in loads if name.startswith(prefix)}
    module = MODULES[line.split()[0]]
    assert module in loaded
    assert loaded & modules_of_commands().keys() == {module}
