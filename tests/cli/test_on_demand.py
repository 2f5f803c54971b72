"""A command loads the module that defines it, and no other command's."""

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ackbus.cli import app, commands

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
    assert defined == app._HOMES


@pytest.mark.parametrize("line", ["queue list", "lease list", "limit list"])
def test_command_loads_no_other_command(line: str, bus_dir: Path, bus_env: dict[str, str]) -> None:
    loads, _ = loaded_by(line.split(), bus_dir.parent, bus_env)
    prefix = "ackbus.cli.commands."
    loaded = {name.removeprefix(prefix) for name in loads if name.startswith(prefix)}
    module = app._HOMES[line.split()[0]]
    assert module in loaded
    assert loaded & modules_of_commands().keys() == {module}
