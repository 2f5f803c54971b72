"""The tables of commands are whole, and a walk meets something to look at."""

from pathlib import Path

import pytest

from ..command_server import CommandServer, door_server
from .commands import ACTING, DRY, LOOKING, commands, lines
from .doors import ask_server, call_tools
from .full_bus import make_full_bus
from .surroundings import Surroundings, state_of
from .walk import Walk


def test_every_command_is_known_to_look_or_to_act() -> None:
    names = {name for name, _ in commands()}
    assert names - set(LOOKING) - set(ACTING) == set(), "give it lines in LOOKING, or a reason"
    assert (set(LOOKING) | set(ACTING)) - names == set()
    assert set(LOOKING) & set(ACTING) == set()
    assert set(DRY) - set(ACTING) == set()


@pytest.mark.slow
def test_walk_over_a_bus_without_traps_has_no_fault(
    tmp_path: Path, command_server: CommandServer
) -> None:
    around = Surroundings.make(tmp_path / "around")
    project = tmp_path / "project"
    project.mkdir()
    directory = make_full_bus(project / ".worker-state")
    before = state_of(project, around.home, without=(directory.name,))
    walk = Walk(around, command_server)
    walk.run(lines(), project)
    ask_server(walk, door_server(), project, directory)
    call_tools(walk, door_server(), project, directory)
    assert walk.faults == []
    assert {start.program for start in around.started()} == {"git"}
    assert state_of(project, around.home, without=(directory.name,)) == before


def test_walk_sees_what_it_looks_for(tmp_path: Path, command_server: CommandServer) -> None:
    around = Surroundings.make(tmp_path / "around")
    directory = make_full_bus(tmp_path / ".worker-state")
    trap = around.command("trap")
    walk = Walk(around, command_server)
    line = ["wake", "bob", "--dir", str(directory), "--", str(trap)]
    walk.run([line], tmp_path)
    assert walk.faults == [f"{' '.join(line)}: ran trap"]
