"""In a directory that was deleted each command names it, or does without; none says only ENOENT."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import RunBus
from ..looking.commands import ACTING, commands, lines
from ..looking.walk import CODES

#: Commands that don't end by themselves, or make a folder of their own.
ENDLESS = ("serve", "ui", "mcp", "demo", "torture")

#: What the system says of a path that is not there, where nothing before it says which.
BARE = re.compile(r"(bus: |\. is in .*: )No such file or directory")

#: How an error names the directory: in our words, or in git's.
NAMED = re.compile("(the|current) working directory")


def _line(name: str, command: Any) -> list[str]:
    """Return a line of a command that has something for each parameter which it needs."""
    needed = [each for each in command.params if each.required]
    words = ["1" for each in needed if each.param_type_name == "argument"]
    options = [
        word for each in needed if each.param_type_name == "option" for word in (each.opts[0], "1")
    ]
    return [*name.split(), *words, *options]


def _acting() -> list[list[str]]:
    return [
        _line(name, made) for name, made in commands() if name in ACTING and name not in ENDLESS
    ]


@pytest.fixture
def deleted(tmp_path: Path) -> Iterator[Path]:
    """A path to a directory that was deleted, while it is open here."""
    folder = tmp_path / "deleted"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    folder.rmdir()
    yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    os.close(descriptor)


@pytest.mark.slow
@pytest.mark.parametrize("tried", [lines, _acting], ids=["looking", "acting"])
def test_every_command_names_the_directory_that_was_deleted(
    tried: Any, deleted: Path, run_bus: RunBus
) -> None:
    """Issue 31, 16: nearly all commands said "No such file or directory" and no more."""
    wrong, named = [], 0
    for line in [each for each in tried() if each[0] != "completion"]:
        done = run_bus(*line, cwd=deleted, env={"BUS_AGENT": "ann"})
        if done.code not in CODES or BARE.search(done.err):
            wrong.append(f"{' '.join(line)}: {done.code}, {done.err}")
        named += bool(NAMED.search(done.err))
    assert wrong == []
    assert named > 60


def test_command_with_a_named_bus_works_in_a_deleted_directory(
    deleted: Path, run_bus: RunBus, bus_dir: Path
) -> None:
    published = run_bus("publish", "t", "{}", "--from", "ann", "--dir", bus_dir, cwd=deleted)
    assert published.code == 0, published.err
    read = run_bus("read", "--dir", bus_dir, cwd=deleted)
    assert "ann" in read.out, read.err


def test_git_that_refuses_a_repository_of_another_owner_is_heard_with_its_advice(
    project: Path, run_bus: RunBus
) -> None:
    """Issue 31, 16: its first line stood alone, under "is in no git repository"."""
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    foreign = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    for line in (["log"], ["guard", "check"], ["integrate", "--dry-run"]):
        said = run_bus(*line, env=foreign).err
        assert "detected dubious ownership" in said
        assert f"git config --global --add safe.directory {project}" in said
        assert "in no git repository" not in said
