"""bus init, where, --dir, --user, BUS_DIR, --version, --help."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import typer

import ackbus
from ackbus.cli import app

from ..conftest import RunBus
from .conftest import OF_A_SERVICE, assert_error
from .git import Git, git_env


def test_init_makes_a_bus_and_is_safe_to_repeat(run_bus: RunBus, project: Path) -> None:
    """M-11: the directory of a bus."""
    made = run_bus("init")
    where = project / ".worker-state"
    assert (made.code, made.out, made.err) == (0, f"made a bus in {where}\n", "")
    assert run_bus("init").out == f"there is a bus in {where} already\n"
    there = {"dir": str(where), "made": False, "durability": "normal"}
    assert json.loads(run_bus("init", "--json").out) == there
    assert stat.S_IMODE(where.stat().st_mode) == 0o700


def test_init_in_a_repository_says_what_git_sees_of_it(
    run_bus: RunBus, project: Path, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """And git agrees; beside files of a project, where ours are named one by one, too."""
    (project / "sub").mkdir()
    for name, what in ((".worker-state", "it"), ("sub", "its files")):
        (project / name).mkdir(exist_ok=True)
        (project / "sub" / "notes").touch()
        git = Git(project, git_env(bus_env))
        git.ok("init", "--quiet")
        said = run_bus("init", "--dir", name).out.splitlines()
        assert said[0] == f"made a bus in {project / name}"
        assert said[1].startswith("bus.db there is the log")
        assert said[2].startswith(f"git sees nothing of {what}, by the .gitignore there")
        run_bus("publish", "t", "--from", "a", "--dir", name)
        assert git.ok("status", "--porcelain", "--untracked-files=all").split() in (
            ["??", "sub/notes"],
        )
        assert run_bus("init", "--dir", name).out.count("\n") == 1


def test_init_leaves_an_empty_export_and_touches_none(run_bus: RunBus, project: Path) -> None:
    """It can be followed from the first message on; a clone of git brings its own."""
    run_bus("init")
    export = project / ".worker-state" / "bus.jsonl"
    assert export.read_bytes() == b""
    assert stat.S_IMODE(export.stat().st_mode) == 0o600
    assert "bad" not in run_bus("doctor").out
    before = export.stat().st_ino
    run_bus("publish", "note", "--from", "ann")
    assert run_bus("export").code == 0
    assert (export.stat().st_ino, export.read_bytes().count(b"\n")) == (before, 1)

    line = export.read_bytes()
    clone = project / "clone" / ".worker-state"
    clone.mkdir(parents=True)
    (clone / "bus.jsonl").write_bytes(line)
    assert run_bus("init", "--dir", clone).code == 0
    assert (clone / "bus.jsonl").read_bytes() == line


def test_an_empty_export_is_nothing_of_a_bus(run_bus: RunBus, project: Path) -> None:
    (project / ".worker-state").mkdir()
    (project / ".worker-state" / "bus.jsonl").touch()
    assert_error(run_bus("tail"), 1, f"no bus in {project} or above it; make one with 'bus init'")


@pytest.mark.slow
def test_bus_is_found_upwards_named_or_the_users_own(
    run_bus: RunBus, project: Path, tmp_path: Path
) -> None:
    """DESIGN: found by walking up; --dir and BUS_DIR override; --user is the per-user bus."""
    below = project / "a" / "b"
    below.mkdir(parents=True)
    named, env = tmp_path / "named", tmp_path / "env"
    run_bus("init")
    run_bus("init", "--dir", named)
    run_bus("init", env={"BUS_DIR": str(env)})
    own = json.loads(run_bus("init", "--user", "--json").out)["dir"]
    assert own.startswith(str(tmp_path / "home"))
    variable = {"BUS_DIR": str(env)}
    assert run_bus("where", cwd=below).out == f"{project / '.worker-state'}\n"
    assert run_bus("where", cwd=below, env=variable).out == f"{env}\n"
    assert run_bus("where", "--dir", named, env=variable).out == f"{named}\n"
    assert run_bus("where", "--user", env=variable).out == f"{own}\n"
    told = json.loads(run_bus("where", "--json").out)
    export = told.pop("export")
    assert (export["last_seq"], export["behind"], export["left_alone"]) == (0, 0, None)
    assert told == {
        "dir": str(project / ".worker-state"),
        "found_by": "looking upwards from here",
        "durability": "normal",
        "backup_made_at_ms": None,
    }
    found_by = {"--dir": ("--dir", named), "--user": ("--user",), "BUS_DIR": ()}
    for name, options in found_by.items():
        told = run_bus("where", "--json", *options, env=variable)
        assert json.loads(told.out)["found_by"] == name
        assert f"found by {name}\n" in run_bus("where", "-v", *options, env=variable).err
    for command in (("init",), ("where",), ("poll", "a")):
        assert_error(run_bus(*command, "--user", "--dir", "x"), 2, "--user")


def test_hot_commands_find_the_same_buses(run_bus: RunBus, tmp_path: Path) -> None:
    run_bus("init", "--user")
    run_bus("init", "--dir", tmp_path / "d")
    assert run_bus("publish", "t", "--from", "a", "--user").code == 0
    assert run_bus("poll", "b", "--user").code == 0
    assert run_bus("poll", "b", "--dir", tmp_path / "d").code == 4


def test_version(run_bus: RunBus) -> None:
    assert run_bus("--version").out == f"bus {ackbus.__version__}\n"


@pytest.mark.slow
def test_every_command_has_help_with_an_example() -> None:
    """Issue 2, item 10: --help with an example each."""
    for path, command in _commands():
        context = typer.Context(command, info_name=path)
        shown = command.get_help(context)
        example = shown.rpartition("\n  Example:\n")[2]
        assert path in example, path
        assert command.help, path
        for parameter in command.params:
            assert getattr(parameter, "help", None), (path, parameter.name)


def test_every_command_that_needs_a_bus_takes_the_same_options() -> None:
    for path, command in _commands():
        # It works after the bus is gone; makes one of its own; is so for all; makes a folder.
        if path in ("bus guard remove", "bus torture", "bus prime", "bus automation init"):
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        # These are about the command line, the user's keys and list, or a folder of configuration.
        if path.startswith(("bus completion ", "bus key ", "bus trust ", "bus config ")):
            continue
        assert {"--dir", "--verbose", "-v"} <= options, path
        # A service of automation has a bus of its own.
        if path.split()[1] not in OF_A_SERVICE:
            assert "--user" in options or path in ("bus demo", "bus log"), path


@pytest.mark.parametrize(
    "line",
    ["", "lease", "nope", "poll a --lim 5", "tail --fol", "export --foll", "blob gc --dry", "-x"],
)
def test_usage_errors_are_2_and_print_no_data(line: str, run_bus: RunBus) -> None:
    """PITFALLS 25: options can't be abbreviated."""
    done = run_bus(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err
    assert "│" not in done.err
    if line and line != "lease":
        assert_error(done, 2, line.split()[-2] if line.endswith("5") else line.split()[-1])


def _commands() -> list[tuple[str, Any]]:
    """Every command, by the words that call it."""
    top: Any = typer.main.get_command(app.app)
    found = []
    for name, command in top.commands.items():
        for within, inner in getattr(command, "commands", {"": command}).items():
            found.append((f"bus {name} {within}".rstrip(), inner))
    return found
