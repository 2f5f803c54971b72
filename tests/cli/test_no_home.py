"""Issue 31, item 13: no `~` that stands for nothing reaches a file operation."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BUS

#: Runs a command as a user without a passwd entry, as containers have it, and without HOME.
_NOBODY = """\
import os, pwd, sys
def getpwuid(uid): raise KeyError(uid)
pwd.getpwuid = getpwuid
sys.argv = ["bus", *sys.argv[1:]]
from ackbus.cli import main
sys.exit(main())
"""

#: Commands that would make or read something in a home, and whether they can do without.
COMMANDS = {
    "key create": (["key", "create", "ann"], False),
    "key list": (["key", "list"], True),
    "where": (["where", "--user"], False),
    "init": (["init", "--user"], False),
    "publish": (["publish", "t", "x", "--from", "ann"], True),
    "publish --user": (["publish", "t", "x", "--from", "ann", "--user"], False),
    "poll": (["poll", "ann"], True),
    "verify": (["verify"], True),
    "trust add": (["trust", "add", "."], False),
    "trust list": (["trust", "list"], True),
    "doctor": (["doctor"], True),
    "setup": (["setup", "claude", "--global"], False),
    "config check": (["config", "check"], True),
    "hook": (["hook", "tool", "claude", "--agent", "me"], True),
    "prompt --user": (["prompt", "ann", "--user"], False),
    "task list": (["task", "list"], True),
    "dir": (["publish", "t", "x", "--from", "ann", "--dir=~/bus"], False),
    "user's dir": (["init", "--dir=~nosuchuser/bus"], False),
}
NAMED = {
    "BUS_DIR": ["init"],
    "BUS_KEYS_DIR": ["key", "create", "ann"],
    "XDG_CONFIG_HOME": ["key", "create", "ann"],
    "XDG_STATE_HOME": ["init", "--user"],
    "BUS_CONFIG": ["config", "check"],
}


def run(words: list[str], place: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    program = [BUS] if "HOME" in env else [sys.executable, "-c", _NOBODY]
    return subprocess.run(
        [*program, *words],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("words", "does_without"), COMMANDS.values(), ids=COMMANDS)
def test_nothing_is_made_in_a_folder_named_tilde(
    words: list[str], does_without: bool, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    env = {name: value for name, value in bus_env.items() if name not in ("HOME", "BUS_KEYS_DIR")}
    done = run(words, bus_dir.parent, env)
    assert [path for path in bus_dir.parent.iterdir() if path.name.startswith("~")] == [], done
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr, done.stderr
    if does_without:
        assert "no home directory" not in done.stderr, done.stderr
    elif words[0] != "prompt":
        assert done.returncode in (1, 2), done
        assert "no home directory" in done.stderr.splitlines()[0], done.stderr


@pytest.mark.parametrize("variable", NAMED)
def test_tilde_that_no_shell_has_expanded_makes_no_folder(
    variable: str, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """An instance that the issue does not name: variables of unit files and containers."""
    run(NAMED[variable], bus_dir.parent, bus_env | {variable: "~/own"})
    assert not (bus_dir.parent / "~").exists()
    if variable in ("BUS_DIR", "BUS_KEYS_DIR"):
        assert (Path(bus_env["HOME"]) / "own").exists()
