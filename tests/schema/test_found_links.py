"""A link, or a `.git` that is a file, leads to a bus elsewhere only where that is meant.

A clone brings links, and an archive both; what they lead to is this user's own.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import BusUnusable
from ackbus.schema.directory.discovery import find_bus

from ..cli.git import Git, git_env

BUS = ".worker-state"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in git_env(os.environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("BUS_DIR", "BUS_SAFE_DIRECTORIES", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The bus of another project of this user, which is a repository with a work tree."""
    git = Git(tmp_path / "mine", os.environ)
    git.path.mkdir()
    git.ok("init", "--quiet")
    git.commit("file")
    git.ok("worktree", "add", "--quiet", tmp_path / "tree")
    Bus.init(git.path / BUS).close()
    return git.path / BUS


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The clone of a stranger's project."""
    path = tmp_path / "clone"
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    (path / "sub").mkdir()
    return path


def _link(clone: Path, mine: Path) -> None:
    (clone / BUS).symlink_to(mine)


def _relative_link(clone: Path, mine: Path) -> None:
    (clone / BUS).symlink_to(os.path.relpath(mine, clone))


def _link_to_a_link(clone: Path, mine: Path) -> None:
    (clone / "between").symlink_to(mine.parent)
    (clone / BUS).symlink_to(f"between/{BUS}")


def _through_the_system(clone: Path, mine: Path) -> None:
    (clone / BUS).symlink_to(f"/proc/self/root{mine}")


def _into_a_folder_with_the_same_beginning(clone: Path, mine: Path) -> None:
    os.rename(mine.parent, f"{clone}-more")
    (clone / BUS).symlink_to(f"../{clone.name}-more/{BUS}")


def _another_tree(clone: Path, mine: Path) -> None:
    """A `.git` that names what git keeps of another tree."""
    _without_git(clone)
    (clone / ".git").write_text(f"gitdir: {mine.parent}/.git/worktrees/tree\n")


def _own_folder_of_git(clone: Path, mine: Path) -> None:
    """A `.git` that names a folder of the clone, which leads on."""
    _without_git(clone)
    (clone / "fake").mkdir()
    (clone / "fake" / "commondir").write_text(f"{mine.parent}/.git\n")
    (clone / "fake" / "gitdir").write_text(f"{clone}/.git\n")
    (clone / ".git").write_text("gitdir: fake\n")


def _folder_without_place(clone: Path, mine: Path) -> None:
    _own_folder_of_git(clone, mine)
    (clone / "fake" / "gitdir").unlink()


def _without_git(clone: Path) -> None:
    os.rename(clone / ".git", clone / "was.git")


LEADING = {
    make.__name__.lstrip("_"): make
    for make in (
        *(_link, _relative_link, _link_to_a_link, _through_the_system),
        *(_into_a_folder_with_the_same_beginning, _another_tree, _own_folder_of_git),
        _folder_without_place,
    )
}


@pytest.mark.parametrize("kind", LEADING)
@pytest.mark.parametrize("has_file", [True, False], ids=["a bus", "what is left of a bus"])
def test_nothing_in_a_clone_leads_to_another_bus(
    kind: str, clone: Path, mine: Path, has_file: bool
) -> None:
    if not has_file:
        (mine / "bus.jsonl").write_text("{}\n")
        (mine / "bus.db").unlink()
    LEADING[kind](clone, mine)
    for start in (clone, clone / "sub"):
        with pytest.raises(
            BusUnusable, match=r"may have come with a clone.*'bus trust add"
        ) as told:
            find_bus(start)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", LEADING)
def test_what_is_trusted_or_named_is_used(
    kind: str, clone: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LEADING[kind](clone, mine)
    monkeypatch.setenv("BUS_SAFE_DIRECTORIES", f"{clone}{os.pathsep}{mine.parent}")
    found = find_bus(clone)
    assert os.path.exists(os.path.join(found, "bus.db"))
    monkeypatch.delenv("BUS_SAFE_DIRECTORIES")
    monkeypatch.setenv("BUS_DIR", found)
    assert find_bus(clone) == found


HONEST: dict[str, Callable[[Path], Path]] = {
    "the project": lambda mine: mine.parent,
    "a work tree": lambda mine: mine.parent.parent / "tree",
    "a link in the project": lambda mine: _linked(mine, mine.parent / "sub", f"../{BUS}"),
    "a link to another place of it": lambda mine: _moved(mine, mine.parent / "deep" / "bus"),
}


def _linked(mine: Path, folder: Path, target: str) -> Path:
    folder.mkdir()
    (folder / BUS).symlink_to(target)
    return folder


def _moved(mine: Path, place: Path) -> Path:
    place.parent.mkdir()
    mine.rename(place)
    mine.symlink_to(place)
    return mine.parent


@pytest.mark.parametrize("kind", HONEST)
def test_what_stays_in_the_project_or_is_its_work_tree_is_used(kind: str, mine: Path) -> None:
    start = HONEST[kind](mine)
    assert os.path.samefile(os.path.join(find_bus(start), "bus.db"), mine / "bus.db")
