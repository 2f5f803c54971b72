"""A command loads the module that defines it, and no other command's."""

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ackbus.cli import app, commands


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
    program = (
        "import os, sys\n"
        "os._exit = lambda code: sys.exit(code)\n"
        f"sys.argv = ['bus', *{line.split()}]\n"
        "from ackbus.cli import main\n"
        "try: main()\n"
        "finally: print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=bus_dir.parent,
        env=bus_env,
        check=False,
    )
    prefix = "ackbus.cli.commands."
    names = [name for name in done.stderr.split() if name.startswith(prefix)]
    loaded = {name.removeprefix(prefix) for name in names}
    module = app._HOMES[line.split()[0]]
    assert module in loaded
    assert loaded & modules_of_commands().keys() == {module}
