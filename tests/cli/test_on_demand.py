"""A command loads the module that defines it, and no other command's; help loads none."""

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ackbus.cli import app, commands
from ackbus.cli.catalogue import FIRST, GROUPS, MODULES
from ackbus.cli.extras import install_command

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
        if name in MODULES.values()
        for command in module.commands.click_commands()
    }
    assert defined == MODULES


def test_modules_that_are_not_listed_define_commands_of_a_listed_group() -> None:
    """As `bus task`, whose commands stand in several modules."""
    others = set(modules_of_commands()) - set(MODULES.values())
    tasks = set(app.program().commands["task"].commands)
    for name in others:
        assert set(import_module(f"ackbus.cli.commands.{name}").commands.click_commands()) <= tasks


def test_help_lists_the_first_sentence_of_each_command() -> None:
    listed = {name: summary for group in GROUPS.values() for name, (_, summary) in group.items()}
    own = {name: _first_sentence(command.help) for name, command in app.program().commands.items()}
    assert listed == own
    assert max(map(len, listed.values())) <= 62  # else a line of help would break at 80 columns


def _first_sentence(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".") + "."


@pytest.mark.parametrize("line", ["--help", "-h", "help", "help all", "--version"])
def test_the_program_s_own_options_load_no_command(
    line: str, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    loads, printed = loaded_by(line.split(), bus_dir.parent, bus_env)
    assert not {name for name in loads if name.startswith("ackbus.cli.commands.")}
    names = {"--version": (), "help all": MODULES}.get(line, FIRST)
    assert all(f"  {name} " in printed for name in names)


@pytest.mark.parametrize("line", ["queue list", "lease list", "limit list", "doctor"])
def test_command_loads_no_other_command(line: str, bus_dir: Path, bus_env: dict[str, str]) -> None:
    loads, _ = loaded_by(line.split(), bus_dir.parent, bus_env)
    prefix = "ackbus.cli.commands."
    loaded = {name.removeprefix(prefix) for name in loads if name.startswith(prefix)}
    module = MODULES[line.split()[0]]
    assert module in loaded
    assert loaded & modules_of_commands().keys() == {module}
    assert not {name.partition(".")[0] for name in loads} & {"pydantic", "ruamel", "blake3"}


@pytest.mark.parametrize(
    "line",
    [
        "automation status",
        "automation start --config .",
        "plugin list",
        "schedule list",
        "route list",
        "pipeline list",
        "config check",
    ],
)
def test_commands_name_the_extra_that_is_not_installed(
    line: str, project: Path, bus_env: dict[str, str]
) -> None:
    (project / "config.yaml").write_text("plugins: {}\n")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['ruamel', 'pydantic'])); "
        "from ackbus.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *line.split()],
        cwd=project,
        env=bus_env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = f"bus: this needs more packages: {install_command('automation')}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", told)
