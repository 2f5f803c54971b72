"""No command that only looks runs anything that a repository names, or changes anything there."""

import os
import shutil
from pathlib import Path

import pytest

from ..command_server import CommandServer, door_server
from ..looking.commands import lines, lines_of_git, with_directory
from ..looking.doors import ask_server, call_tools
from ..looking.full_bus import add_tasks
from ..looking.surroundings import state_of
from ..looking.walk import Walk
from ..programs import tamper
from ..sizes import case, sampled
from .place import Place
from .planters import DRIVERS, HOOKS, PROGRAMS, Planter
from .roads import ELSEWHERE, REMOTES

pytestmark = pytest.mark.slow  # starts many processes

ALL = [*HOOKS, *PROGRAMS, *DRIVERS, *REMOTES, *ELSEWHERE]

#: Those that may be in one repository together.
TOGETHER = [planter for planter in ALL if not planter.is_alone]

BUS = ".worker-state"

#: What this project keeps in a repository.
OURS = (BUS, "ackbus")


@pytest.fixture
def walk(place: Place, command_server: CommandServer) -> Walk:
    return Walk(place.around, command_server)


def branches(place: Place) -> dict[str, str]:
    """Returns the commits of the branches that tasks are about."""
    return {name: place.git("rev-parse", name) for name in ("main", "topic", "other")}


def put_bus(folder: Path, full_bus: Path, repository: str, commits: dict[str, str]) -> Path:
    """Puts a bus into a folder whose tasks say that they are of a repository."""
    shutil.copytree(full_bus, folder, dirs_exist_ok=True)
    tamper(folder / BUS, "DELETE FROM tasks", "DELETE FROM landings")
    add_tasks(folder / BUS, repository, commits)
    return folder / BUS


def plant(planters: list[Planter], place: Place) -> None:
    for planter in planters:
        planter.plant(place, str(place.around.command(planter.name)))
    place.around.ran()  # planting runs hooks
    place.around.started()


def unchanged_by(walk: Walk, place: Place, what: list[list[str]], folder: Path) -> None:
    """Walks over lines, and checks that only the bus may differ afterwards."""
    before = state_of(place.root, place.around.home, without=OURS)
    walk.run(what, folder)
    after = state_of(place.root, place.around.home, without=OURS)
    differing = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert walk.faults == []
    assert differing == set()


def test_in_a_repository_with_all_traps_at_once(place: Place, walk: Walk, full_bus: Path) -> None:
    commits = branches(place)
    plant(TOGETHER, place)
    bus = put_bus(place.tree, full_bus, str(place.git_dir), commits)
    walk.run(lines(), place.tree)
    ask_server(walk, door_server(), place.tree, bus)
    call_tools(walk, door_server(), place.tree, bus)
    assert walk.faults == []


@pytest.mark.parametrize(
    "planter", sampled([each for each in ALL if each.is_alone], every=9), ids=lambda p: p.name
)
def test_in_a_repository_with_a_trap_that_others_would_hide(
    planter: Planter, place: Place, walk: Walk, full_bus: Path
) -> None:
    commits = branches(place)
    put_bus(place.tree, full_bus, str(place.git_dir), commits)
    plant([planter], place)
    folder = place.tree / "docs" if planter.name == "bare-within" else place.tree
    unchanged_by(walk, place, lines_of_git(), folder)


@pytest.mark.parametrize("planter", [case(each, id=each.name, by_day=False) for each in TOGETHER])
def test_in_a_repository_with_each_trap(
    planter: Planter, place: Place, walk: Walk, full_bus: Path
) -> None:
    commits = branches(place)
    put_bus(place.tree, full_bus, str(place.git_dir), commits)
    plant([planter], place)
    unchanged_by(walk, place, lines(), place.tree)


def test_from_elsewhere_by_the_name_of_the_bus(place: Place, walk: Walk, full_bus: Path) -> None:
    """Its repository is not that of the working directory: the bus is in it, so git may look."""
    commits = branches(place)
    plant(TOGETHER, place)
    bus = put_bus(place.tree, full_bus, str(place.git_dir), commits)
    elsewhere = place.root / "elsewhere"
    elsewhere.mkdir()
    unchanged_by(walk, place, with_directory(lines(), bus), elsewhere)
    ask_server(walk, door_server(), elsewhere, bus)
    call_tools(walk, door_server(), elsewhere, bus)
    assert walk.faults == []


# Rows that name repositories --------------------------------------------------------------------


#: Traps that a bare repository may have, and that don't hide one another.
OF_BARE = [planter for planter in [*DRIVERS, *REMOTES] if not planter.from_tree]
MERGING = [planter for planter in OF_BARE if not planter.is_alone]
PROMISING = [planter for planter in OF_BARE if planter.name == "promisor"]

#: How a row may name a repository that lies in the clone, by where it lies.
NAMES = {
    "relative": ("x.git", "x.git"),
    "relative-with-dots": ("./docs/../x.git", "x.git"),
    "from-the-bus": (f"{BUS}/x.git", f"{BUS}/x.git"),
    "option": ("--upload-pack=x.git", "--upload-pack=x.git"),
    "short-option": ("-o", "-o"),
    "external": ("ext::x.git", "ext::x.git"),
    "file-url": ("file://x.git", "file:/x.git"),
    "newline": ("x\n.git", "x\n.git"),
    "escapes": ("x\x1b[2J\x07.git", "x\x1b[2J\x07.git"),
    "home": ("~/x.git", "~/x.git"),
    "variable": ("$HOME/x.git", "$HOME/x.git"),
    "substitution": ("$(x).git; x", "$(x).git; x"),
    "absolute": ("{tree}/x.git", "x.git"),
    "elsewhere": ("{root}/x.git", "../x.git"),
    "above": ("../x.git", "../x.git"),
    "linked": ("linked.git", "linked.git"),
}

CASES = [
    case(form, kind, id=f"{form}-{kind}", by_day=form in by_day)
    for kind, by_day in (
        ("merging", ("option",)),
        ("promising", ("home",)),
    )
    for form in NAMES
]


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_row_starts_git_in_no_repository(
    form: str, kind: str, place: Place, walk: Walk, full_bus: Path
) -> None:
    """Neither in the clone, nor with the bus named from elsewhere: a row is no user's act."""
    commits = branches(place)
    name, where = (text.format(tree=place.tree, root=place.root) for text in NAMES[form])
    bus = put_bus(place.tree, full_bus, name, commits)
    trap = _bare(place, place.tree / where, MERGING if kind == "merging" else PROMISING)
    walk.run(lines_of_git(), place.tree)
    walk.run(with_directory(lines_of_git(), bus), Path(os.path.normpath(trap)).parent)
    ask_server(walk, door_server(), place.tree, bus)
    call_tools(walk, door_server(), place.tree, bus)
    assert walk.faults == []
    real = Path(os.path.realpath(trap))
    assert [start for start in place.around.started() if start.names(real)] == []


def _bare(place: Place, path: Path, planters: list[Planter]) -> Path:
    """Puts a bare repository with traps in a place; a link to it where that is called linked."""
    if path.name == "linked.git":
        path.symlink_to(_bare(place, place.root / "target.git", planters))
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    place.git("clone", "-q", "--bare", "--no-hardlinks", "--", str(place.tree), str(path))
    bare = Place(place.root, place.around, path)
    if planters is PROMISING:
        _loosen(bare)
    plant(planters, bare)
    return path


def _loosen(bare: Place) -> None:
    """Turns packs into objects of which one can be taken away."""
    packs = list((bare.git_dir / "objects" / "pack").glob("*.pack"))
    for pack in packs:
        aside = bare.root / pack.name
        pack.rename(aside)
        pack.with_suffix(".idx").unlink()
        bare.unpack(aside)
