"""Any value in a column: commands that look end, run nothing, and touch nothing outside."""

import random
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from ..command_server import CommandServer, door_server
from ..looking.commands import lines
from ..looking.doors import ask_server, call_tools
from ..looking.full_bus import make_full_bus
from ..looking.surroundings import Surroundings, state_of
from ..looking.walk import Walk
from ..sizes import sampled
from .attacks import VALUES, Column, Target, attack, columns_of

pytestmark = pytest.mark.slow  # starts many processes

BUS = ".worker-state"

#: How many files share all columns, each of which has one value.
FILES = 30

#: Lines that look at every row, which each file meets; of the others it meets every third.
WHOLE = [["doctor"], ["doctor", "--full"], ["doctor", "--repair", "--dry-run"], ["stats"]]
SOME = [line for line in lines() if line not in WHOLE]

#: What is done to a hostile file at the end.
ACTS = [
    *(["export"], ["maintain"], ["archive", "--older-than", "0s"]),
    *(["backup", "../saved", "--dir", BUS], ["doctor", "--repair"]),
]


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bus and of a configuration, for copies."""
    folder = tmp_path_factory.mktemp("kept") / "project"
    folder.mkdir()
    make_full_bus(folder / BUS)
    return folder


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings.make(tmp_path / "around")


@pytest.fixture
def target(tmp_path: Path, around: Surroundings) -> Iterator[Target]:
    made = Target.make(tmp_path, around)
    yield made
    made.close()


@pytest.fixture
def walk(around: Surroundings, command_server: CommandServer) -> Walk:
    return Walk(around, command_server, is_broken=True)


def look(walk: Walk, target: Target, project: Path, number: int, what: object) -> None:
    """Walks over a third of the lines, each fourth time over the doors, and acts at the end."""
    tried = [*WHOLE, *SOME[number % 3 :: 3]]
    before = state_of(project, walk.around.home, without=(BUS,))
    walk.run(tried, project)
    if number % 4 == 0:
        ask_server(walk, door_server(), project, project / BUS)
        call_tools(walk, door_server(), project, project / BUS)
    walk.run([ACTS[number % len(ACTS)]], project)
    walk.faults += target.touched()
    assert not walk.faults, f"{what}: {walk.faults}"
    assert state_of(project, walk.around.home, without=(BUS,)) == before


@pytest.mark.parametrize("number", sampled(range(FILES), every=11))
def test_all_columns_of_a_file_hold_attacks(
    number: int, kept: Path, tmp_path: Path, walk: Walk, target: Target
) -> None:
    """Each file has the n-th share of all columns; each column has another value in its file."""
    project = Path(shutil.copytree(kept, tmp_path / "project"))
    columns = columns_of(project / BUS)
    random.Random(29).shuffle(columns)
    values = list(VALUES)
    done = []
    for place, column in list(enumerate(columns))[number::FILES]:
        value = values[place % len(values)]
        if attack(project / BUS, column, value, target, row=place):
            done.append(f"{column} = {value}")
    assert done
    look(walk, target, project, number, done)


#: Columns of which other values than by chance are tried in each run.
TRIED = [
    *(Column("tasks", name) for name in ("repository", "path", "branch", "head", "base", "target")),
    *(Column("messages", name) for name in ("payload_ref", "headers", "id")),
    *(Column("landings", "repository"), Column("automation_service", "directory")),
]

DANGEROUS = ("relative-folder", "absolute-folder", "option", "external", "first-byte", "url")


#: By day each value is in another column.
@pytest.mark.parametrize(
    ("column", "value"), sampled(product(TRIED, DANGEROUS), every=len(DANGEROUS) * 2 + 1), ids=str
)
def test_column_that_names_something_holds_each_dangerous_value(
    column: Column, value: str, kept: Path, tmp_path: Path, walk: Walk, target: Target
) -> None:
    project = Path(shutil.copytree(kept, tmp_path / "project"))
    if attack(project / BUS, column, value, target, row=11):
        look(walk, target, project, DANGEROUS.index(value), f"{column} = {value}")


#: Among how many files the columns are shared out that hold one value.
SHARES = 10


@pytest.mark.nightly
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("value", VALUES)
def test_each_column_holds_each_value(
    value: str, share: int, kept: Path, tmp_path: Path, walk: Walk, target: Target
) -> None:
    """One column a file would be thousands of files; each value has other columns together."""
    project = Path(shutil.copytree(kept, tmp_path / "project"))
    columns = columns_of(project / BUS)
    random.Random(value).shuffle(columns)
    hit = [
        column
        for row, column in enumerate(columns[share::SHARES])
        if attack(project / BUS, column, value, target, row=row)
    ]
    look(walk, target, project, share, f"{hit} = {value}")


@pytest.mark.parametrize(
    "line",
    [["doctor", "--full"], ["doctor", "--repair"], ["doctor", "--repair", "--dry-run"], ACTS[3]],
    ids=" ".join,
)
def test_name_of_a_blob_that_is_no_text_ends_every_look(
    line: list[str], kept: Path, tmp_path: Path, walk: Walk, target: Target
) -> None:
    """A page of rows went on from a value that was rewritten for display, and never ended."""
    project = Path(shutil.copytree(kept, tmp_path / "project"))
    assert attack(project / BUS, Column("messages", "payload_ref"), "first-byte", target, row=9)
    walk.run([line], project)
    assert walk.faults == []
