"""The layers of a crew's settings: the last one that has a setting wins."""

from pathlib import Path

import pytest

from ackbus.schema.errors import InvalidInput
from ackbus.tasks.crew_file import CrewFaults, CrewFile, read_crew, read_layers

from ...conftest import RunBus

CREW = "workers: {command: ./work, count: 1}\nenvironment: {A: file, B: file}"


@pytest.fixture
def crew(tmp_path: Path) -> Path:
    path = tmp_path / "crew.yaml"
    path.write_text(CREW)
    return path


def read(crew: Path, **environ: str) -> CrewFile:
    return read_crew(str(crew), read_layers(str(crew), environ), ["bus"])


def faults(crew: Path, **environ: str) -> str:
    with pytest.raises(CrewFaults) as refused:
        read(crew, **environ)
    return str(refused.value)


def test_u_84_the_last_layer_that_has_a_setting_wins(crew: Path) -> None:
    """U-84: one setting in all four layers; taken away from the top, the value follows."""
    profile, local = crew.with_name("crew.ci.yaml"), crew.with_name("crew.local.yaml")
    profile.write_text("workers: {count: 2}")
    local.write_text("workers: {count: 3}")
    named = {"BUS_CREW_PROFILE": "ci"}
    assert len(read(crew, BUS_CREW_WORKERS_COUNT="4", **named).roles) == 4
    assert len(read(crew, **named).roles) == 3
    local.unlink()
    assert len(read(crew, **named).roles) == 2
    assert len(read(crew).roles) == 1


def test_u_84_maps_are_joined_key_by_key(crew: Path) -> None:
    """U-84: what a layer doesn't say stays; a program displaces a command, and the reverse."""
    local = crew.with_name("crew.local.yaml")
    local.write_text("environment: {B: local}\nworkers: {program: claude}")
    found = read(crew)
    assert found.environment == {"A": "file", "B": "local"}
    assert found.roles[0].argv[-2:] == ("--program", "claude")
    assert read(crew, BUS_CREW_WORKERS_COMMAND="./other it").roles[0].argv[-2:] == ("./other", "it")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (
            "BUS_CREW_WORKERS_COUNT",
            "many",
            "_COUNT: workers.count: write a whole number",
        ),
        ("BUS_CREW_WORKER_COUNT", "2", "BUS_CREW_WORKER_COUNT is no setting of a crew"),
        ("BUS_CREW_WORKERS_MAX", "1\ncount: 3", "BUS_CREW_WORKERS_MAX: workers.max: write a whole"),
        (
            "BUS_CREW_INTEGRATOR_CHECK",
            "a",
            "_CHECK: integrator.check: write a list",
        ),
        ("BUS_CREW_PROCESSES", "x", "BUS_CREW_PROCESSES is no setting of a crew"),
    ],
)
def test_u_84_wrong_variable_is_named(crew: Path, variable: str, value: str, told: str) -> None:
    """U-84: before anything starts."""
    assert told in faults(crew, **{variable: value})


def test_u_84_fault_has_the_file_and_line_of_its_layer(crew: Path) -> None:
    """U-84: also what only their join makes wrong."""
    local = crew.with_name("crew.local.yaml")
    local.write_text("workers:\n  count: x")
    assert faults(crew).startswith(f"{local}:2: workers.count: write")
    local.write_text("workers: {max: 1}")
    crew.write_text(CREW.replace("count: 1", "count: 2"))
    assert faults(crew) == f"{local}:1: workers.max: write at least workers.count"


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_u_84_layer_may_be_empty(crew: Path, text: str) -> None:
    """U-84: as a file that only has comments."""
    crew.with_name("crew.local.yaml").write_text(text)
    assert len(read(crew).roles) == 1


def test_u_84_profile_that_is_named_must_be_there(crew: Path) -> None:
    """U-84: and have a plain name, for it is part of a path."""
    with pytest.raises(InvalidInput, match=r"crew.ci.yaml'; BUS_CREW_PROFILE names it"):
        read(crew, BUS_CREW_PROFILE="ci")
    with pytest.raises(InvalidInput, match="BUS_CREW_PROFILE must be a name"):
        read(crew, BUS_CREW_PROFILE="../../etc/x")


def test_u_84_command_reads_all_layers(run_bus: RunBus, bus_dir: Path, crew: Path) -> None:
    """U-84: `bus crew start` has them from its files and its environment."""
    crew.with_name("crew.local.yaml").write_text("workers: {count: 2}")
    check = ("crew", "start", str(crew), "--check")
    assert run_bus(*check).out.endswith(": 2 roles\n")
    assert run_bus(*check, env={"BUS_CREW_WORKERS_COUNT": "3"}).out.endswith(": 3 roles\n")
    refused = run_bus(*check, env={"BUS_CREW_COUNT": "3"})
    assert (refused.code, refused.out) == (78, "")
    assert refused.err.count("\n") == 1
