"""At the place of a file of git's may stand what never ends: each look ends all the same.

It says which repository it could not look into, and leaves no temporary folder behind.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.trees.tree_list import CHECK_MARK

from ..command_server import CommandServer
from ..looking.commands import lines_of_git
from ..looking.walk import Walk
from ..sizes import sampled
from .place import Place
from .test_looking import BUS, branches, put_bus

pytestmark = pytest.mark.slow  # waits for limits

#: Seconds after which a command counts as hung: all run at once, each waits for git once at most.
HANG_S = 60

#: Puts something in the place of a file.
Obstacle = Callable[[Path], None]


def _link_to_a_pipe(path: Path) -> None:
    pipe = path.parent / f"{path.name}-pipe"
    os.mkfifo(pipe)
    path.symlink_to(pipe)


OBSTACLES: dict[str, Obstacle] = {
    "pipe": os.mkfifo,
    "link-to-a-pipe": _link_to_a_pipe,
    "socket": lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "circle": lambda path: path.symlink_to(path.name),
}

#: Files that are there, or could be, in the folder of git's; `TREE` is its folder of a linked tree.
FILES = (
    *("HEAD", "config", "index", "packed-refs", "shallow", "commondir", "config.worktree"),
    *("MERGE_HEAD", "FETCH_HEAD", "info/attributes", "info/exclude", "info/grafts"),
    *("info/sparse-checkout", "logs/HEAD", "refs/heads/main", "refs/heads/topic", "refs/stash"),
    *("objects/info/alternates", "objects/info/commit-graph", "objects/pack/pack-1.idx"),
    *("objects/pack/multi-pack-index", "refs/replace", "hooks/pre-commit", "reftable/tables.list"),
    *(f"worktrees/tree/{name}" for name in ("gitdir", "HEAD", "locked", "commondir", "index")),
    *(f"worktrees/tree/{name}" for name in ("ackbus.json", "config.worktree", "MERGE_HEAD")),
    *("ackbus/target-main.lock", "ackbus/trees.lock", "ackbus/task-t-1.lock"),
)


def _in_git_dir(name: str) -> Callable[[Place], Path]:
    return lambda place: place.git_dir / name


def _included(place: Place) -> Path:
    place.configure({"include.path": "inc"})
    return place.git_dir / "inc"


def _loose(revision: str) -> Callable[[Place], Path]:
    """The file of an object; nothing else has it."""

    def at(place: Place) -> Path:
        id = place.git("rev-parse", revision)
        return place.git_dir / "objects" / id[:2] / id[2:]

    return at


def _lock_of_check_tree(place: Place) -> Path:
    """The lock of a branch whose candidates were checked in a tree that is left."""
    tree = str(place.root / "check")
    place.git("worktree", "add", "-q", "--detach", tree)
    place.git("worktree", "lock", "--reason", f"{CHECK_MARK}main", tree)
    return place.git_dir / "ackbus" / "target-main.lock"


#: The places by name, each with what finds the path in a repository.
PLACES: dict[str, Callable[[Place], Path]] = {
    **{name: _in_git_dir(name) for name in FILES},
    "included": _included,
    "lock-of-a-check-tree": _lock_of_check_tree,
    "commit": _loose("HEAD"),
    "commit-of-a-branch": _loose("topic"),
    "exported-log": _loose(f"HEAD:{BUS}/bus.jsonl"),
    "file-of-a-branch": _loose("topic:a.txt"),
    ".git": lambda place: place.tree / ".git",
    ".gitattributes": lambda place: place.tree / ".gitattributes",
    ".gitignore": lambda place: place.tree / ".gitignore",
    ".gitmodules": lambda place: place.tree / ".gitmodules",
    "tracked-file": lambda place: place.tree / "a.txt",
    ".git-of-a-tree": lambda place: place.root / "tree" / ".git",
}

CASES = [(where, kind) for where in PLACES for kind in OBSTACLES]


def obstruct(place: Place, where: str, kind: str) -> None:
    """Puts an obstacle in the place of a file, which is kept beside the repository."""
    path = PLACES[where](place)
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        path.rename(place.root / "aside")
    OBSTACLES[kind](path)


@pytest.mark.parametrize(("where", "kind"), sampled(CASES, every=145))
def test_every_look_ends_in_a_repository_with_an_obstacle(
    where: str, kind: str, place: Place, full_bus: Path, command_server: CommandServer
) -> None:
    put_bus(place.tree, full_bus, str(place.git_dir), branches(place))
    place.git("add", "--force", f"{BUS}/bus.jsonl")
    place.commit("log")
    place.git("worktree", "add", "-q", "-b", "tree", str(place.root / "tree"))
    obstruct(place, where, kind)
    temporary = place.root / "temporary"
    temporary.mkdir()
    walk = Walk(place.around, command_server, hang_s=HANG_S)
    walk.run_together(lines_of_git(), place.tree, {"TMPDIR": str(temporary)})
    assert walk.faults == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("kind", OBSTACLES)
def test_doctor_ends_where_the_lock_of_a_check_tree_is_no_file(
    kind: str, place: Place, full_bus: Path, command_server: CommandServer
) -> None:
    """A pipe there was waited for, since whether somebody holds it was asked by a plain open."""
    put_bus(place.tree, full_bus, str(place.git_dir), branches(place))
    obstruct(place, "lock-of-a-check-tree", kind)
    walk = Walk(place.around, command_server, hang_s=HANG_S)
    walk.run([["doctor"]], place.tree)
    assert walk.faults == []
