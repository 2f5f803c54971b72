"""A rehearsal of `bus torture`, which the tests of this folder damage copies of."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.torture.evidence import RunEvidence
from ackbus.torture.history import RunFiles

from .rehearsal import rehearse


@dataclass
class Copy:
    """A copy of the rehearsal, to be damaged."""

    files: RunFiles
    bus: Bus

    def evidence(self) -> RunEvidence:
        return RunEvidence(self.bus, self.files.histories, self.bus.read())

    def lives(self, role: str) -> Iterator[Path]:
        """The histories of all agents of a role, life after life."""
        return iter(sorted(Path(self.files.histories).glob(f"{role}-*/*.jsonl")))

    def change(self, role: str, change: Callable[[list[Any]], bool]) -> None:
        """Changes the first life of a role whose lines `change` has something to change in."""
        for path in self.lives(role):
            lines = [json.loads(line) for line in path.read_bytes().splitlines()]
            if change(lines):
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                return
        pytest.fail(f"no {role} has such a line")

    def write_life(self, agent: str, *lines: dict[str, Any]) -> None:
        """Adds an agent with one life."""
        path = Path(self.files.histories, agent, "000001.jsonl")
        path.parent.mkdir()
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    """A run that is the same each time."""
    return rehearse(tmp_path_factory.mktemp("rehearsal") / "run")


@pytest.fixture
def copy(rehearsed: RunFiles, tmp_path: Path) -> Iterator[Copy]:
    """A copy of that one."""
    files = RunFiles(os.fspath(tmp_path / "copy"), made=False)
    # By another process: this one must not open the database but through SQLite.
    subprocess.run(["cp", "-R", rehearsed.directory, files.directory], check=True)
    with Bus.open(files.bus) as bus:
        yield Copy(files, bus)
