"""Links that a branch or a clone brings: what writes beside git follows none of them out."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from ackbus.git import target_refs
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.bus_files import DriverSetup, _append, _lines, _take_out
from ackbus.git.guard import GuardHooks
from ackbus.git.repository import FRESH, replace_text
from ackbus.git.target_refs import is_derived
from ackbus.git.trees.removal import Removal
from ackbus.git.trees.tree_list import LinkedTree, read_trees
from ackbus.git.trees.tree_state import find_leftovers, mend
from ackbus.git.trees.work_trees import NewTree, WorkTrees, copy_files
from ackbus.git.work_tree import ExcludeFile, WorkTree
from ackbus.schema.directory.layout import Layout
from ackbus.schema.errors import AckbusError, Refused
from ackbus.tasks.roles.job_run import write_prompt

from ..sizes import case
from .plain_git import git


def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    main, tree, outside = (tmp_path / name for name in ("main", "tree", "outside"))
    for folder in (main, tree, outside):
        folder.mkdir()
    (outside / "x").write_text("theirs\n")
    return main, tree, outside


def test_copy_goes_through_no_link_of_the_new_tree(tmp_path: Path) -> None:
    """Issue 29, item 6: the branch of the tree has a link where the main tree has a folder."""
    main, tree, outside = folders(tmp_path)
    (main / "conf").mkdir()
    (main / "conf" / ".env").write_text("A=1\n")
    (tree / "conf").symlink_to("../outside")
    with pytest.raises(Refused, match="conf is a link to"):
        copy_files(str(main), str(tree), ["conf/.env"])
    assert os.listdir(outside) == ["x"]


def test_copy_brings_nothing_from_outside_the_main_tree(tmp_path: Path) -> None:
    main, tree, outside = folders(tmp_path)
    (main / ".env").symlink_to(outside / "x")
    with pytest.raises(Refused, match=r"\.env is a link to"):
        copy_files(str(main), str(tree), [".env"])
    assert os.listdir(tree) == []


def test_copy_takes_what_a_link_within_the_main_tree_leads_to(tmp_path: Path) -> None:
    main, tree, _ = folders(tmp_path)
    (main / "real").write_text("A=1\n")
    (main / "real").chmod(0o640)
    (main / ".env").symlink_to("real")
    assert copy_files(str(main), str(tree), [".env"]) == [".env"]
    assert ((tree / ".env").read_text(), (tree / ".env").stat().st_mode & 0o777) == ("A=1\n", 0o640)


def test_lines_for_git_are_neither_read_nor_written_through_a_link(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    path = main / ".gitignore"
    path.symlink_to(outside / "x")
    for act in (
        lambda: _lines(str(path)),
        lambda: _append(str(path), ["a"]),
        lambda: _take_out(str(path), ("theirs",)),
    ):
        with pytest.raises(Refused, match=r"\.gitignore is a link to"):
            act()
    assert (path.is_symlink(), (outside / "x").read_text()) == (True, "theirs\n")


def test_file_beside_its_place_is_not_written_through_a_link(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    (main / f"hook{FRESH}").symlink_to(outside / "x")
    (main / "hook").symlink_to(outside / "x")
    replace_text(str(main / "hook"), "ours\n", 0o755)
    assert ((outside / "x").read_text(), (main / "hook").read_text()) == ("theirs\n", "ours\n")
    assert not (main / "hook").is_symlink()


@pytest.mark.parametrize("given", ["trees", "trees/below", "sub/../trees"])
def test_folder_of_trees_that_a_link_leads_out_of_the_project_is_refused(
    tmp_path: Path, given: str
) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    git(main, "config", "ackbus.trees", given)
    (main / "trees").symlink_to(outside)
    trees = WorkTrees(RepositoryPlace.around(str(main)))
    with pytest.raises(Refused, match="leads out of"):
        trees.make_folder(trees.folder)
    assert os.listdir(outside) == ["x"]


def test_gitignore_of_the_trees_is_written_through_no_link(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    folder = tmp_path / "main.trees"
    folder.mkdir()
    (outside / "x").write_text("")
    (folder / ".gitignore").symlink_to(outside / "x")
    WorkTrees(RepositoryPlace.around(str(main))).make_folder(str(folder))
    assert (outside / "x").read_text() == ""


def test_exclude_file_of_git_is_written_through_no_link(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    (main / ".worker-state").mkdir()
    shutil.rmtree(main / ".git" / "info")
    (main / ".git" / "info").symlink_to(outside)
    (outside / "exclude").write_text("")
    with pytest.raises(Refused, match="info is a link to"):
        ExcludeFile(WorkTree.around(str(main)), str(main / ".worker-state")).add()
    assert (outside / "exclude").read_text() == ""


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_tree_is_not_mended_where_a_link_leads(tmp_path: Path, is_folder: bool) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(main, "worktree", "add", "--quiet", str(tmp_path / "task"))
    (tree,) = [
        each for each in read_trees(RepositoryPlace.around(str(main))) if each.path.endswith("task")
    ]
    shutil.rmtree(tree.path)
    if is_folder:
        Path(tree.path).symlink_to(outside)
    else:
        Path(tree.path).mkdir()
        Path(tree.path, ".git").symlink_to(outside / "made")
    with pytest.raises(Refused, match="is not the work tree"):
        mend(tree, "0" * 40, 10)
    assert os.listdir(outside) == ["x"]


def test_prompt_is_written_through_no_link_of_an_earlier_attempt(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    for target in (outside / "x", outside / "made", "inside"):
        (main / "inside").write_text("")
        (main / "prompt.md").symlink_to(target)
        with suppress(Refused):
            write_prompt(str(main), "text")
        assert (outside / "x").read_text() == "theirs\n"
        assert os.listdir(outside) == ["x"]
        assert (main / "prompt.md").unlink() is None


def test_files_of_a_bus_behind_a_link_of_a_commit_are_none_of_the_tree(tmp_path: Path) -> None:
    """A commit may have a link where another has the folder of a bus."""
    main, tree, outside = folders(tmp_path)
    (outside / "bus.db").touch()
    (main / "bus.db").touch()
    (tree / "sub").symlink_to(outside)
    assert not is_derived(str(tree), "sub/bus.jsonl")
    assert target_refs._derived_file(str(tree), "sub/bus.jsonl") is None
    assert is_derived(str(main), "bus.jsonl")


@pytest.mark.parametrize("is_outside", [False, True])
def test_hooks_are_put_into_no_folder_that_a_link_leads_to(
    is_outside: bool, tmp_path: Path
) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    (main / "own").mkdir()
    (main / ".git" / "ackbus-hooks").symlink_to(outside if is_outside else "../own")
    hooks = GuardHooks(WorkTree.around(str(main)))
    for act in (lambda: hooks.install("block"), hooks.remove):
        with pytest.raises(Refused, match="ackbus-hooks is a link"):
            act()
    assert (os.listdir(outside), os.listdir(main / "own")) == (["x"], [])


def test_hook_of_the_guard_is_written_through_no_link(tmp_path: Path) -> None:
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    own = main / ".git" / "ackbus-hooks"
    own.mkdir()
    (own / "pre-commit").symlink_to(outside / "x")
    hooks = GuardHooks(WorkTree.around(str(main)))
    for act in (lambda: hooks.install("block"), hooks.remove):
        with pytest.raises(Refused, match="pre-commit is a hook of another tool"):
            act()
    assert (outside / "x").read_text() == "theirs\n"


def test_earlier_hooks_may_lie_where_a_link_leads_to(tmp_path: Path) -> None:
    """Nothing is written there: they run at their own path."""
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet")
    folder = main / ".git" / "hooks"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.symlink_to(outside)
    (outside / "pre-commit").write_text("#!/bin/sh\n")
    names = {
        hook.name: hook.earlier for hook in GuardHooks(WorkTree.around(str(main))).install("block")
    }
    assert names == {"pre-commit": str(folder / "pre-commit"), "pre-push": None}
    assert sorted(os.listdir(outside)) == ["pre-commit", "x"]


#: What an unpacked archive may bring so that git's settings are those of somebody else. Each takes
#: the clone, and another repository that has a linked work tree.
LED_AWAY: dict[str, Callable[[Path, Path], None]] = {
    "relative link": lambda clone, other: _link_config(clone, Path("../../other/.git/config")),
    "absolute link": lambda clone, other: _link_config(clone, other / ".git" / "config"),
    "link to a person's settings": lambda clone, other: _link_config(clone, other / "gitconfig"),
    "link to nothing": lambda clone, other: _link_config(clone, other / "not-there"),
    "file that names another": lambda clone, other: _lead(clone, f"gitdir: {other}/.git\n"),
    "file that names a tree": lambda clone, other: _lead(
        clone, f"gitdir: {other}/.git/worktrees/linked\n"
    ),
    "folder that is a link": lambda clone, other: _link_git(clone, other),
}


def _link_config(clone: Path, target: Path) -> None:
    config = clone / ".git" / "config"
    config.unlink()
    config.symlink_to(target)


def _lead(clone: Path, text: str) -> None:
    shutil.rmtree(clone / ".git")
    (clone / ".git").write_text(text)


def _link_git(clone: Path, other: Path) -> None:
    shutil.rmtree(clone / ".git")
    (clone / ".git").symlink_to(other / ".git")


def _drivers(clone: Path) -> DriverSetup:
    return DriverSetup(Layout(str(clone / "bus")), "/opt/bin/bus")


SETTINGS: dict[str, Callable[[Path], object]] = {
    "drivers": lambda clone: _drivers(clone).install(),
    "no drivers": lambda clone: _drivers(clone).remove(),
    "guard": lambda clone: GuardHooks(WorkTree.around(str(clone))).install("block"),
    "no guard": lambda clone: GuardHooks(WorkTree.around(str(clone))).remove(),
}


def _files_of(folder: Path) -> dict[str, object]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("act", SETTINGS)
@pytest.mark.parametrize("kind", LED_AWAY)
def test_settings_of_another_repository_are_not_changed(
    kind: str, act: str, tmp_path: Path
) -> None:
    clone, other = tmp_path / "clone", tmp_path / "other"
    for folder in (clone, other):
        folder.mkdir()
        git(folder, "init", "--quiet")
    (clone / "bus").mkdir()
    (other / "gitconfig").write_text("[core]\n\trepositoryFormatVersion = 0\n")
    git(other, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(other, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    LED_AWAY[kind](clone, other)
    before = _files_of(tmp_path)
    with pytest.raises(Refused, match=rf"^{clone}/\.git(/config is a link| leads) to [^\n]*$"):
        SETTINGS[act](clone)
    assert _files_of(tmp_path) == before


@pytest.mark.parametrize("act", SETTINGS)
@pytest.mark.parametrize("kind", ["linked work tree", "submodule", "git's folder elsewhere"])
def test_settings_are_changed_where_the_repository_knows_the_folder(
    kind: str, act: str, tmp_path: Path
) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "--message", "first")
    if kind == "linked work tree":
        git(main, "worktree", "add", "--quiet", str(tree))
    elif kind == "submodule":
        words = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(main))
        git(main, *words, "inner")
        tree = main / "inner"
    else:
        tree.mkdir()
        git(tree, "init", "--quiet", f"--separate-git-dir={tmp_path / 'kept'}")
    (tree / "bus").mkdir()
    SETTINGS[act.removeprefix("no ")](tree)
    assert SETTINGS[act](tree) or act == "drivers"


# Work trees: git's folder of one may name any place, or be led there.


def _name_folder(tree: LinkedTree, outside: Path) -> None:
    """The tree is gone, and git's folder of it names somebody's folder instead."""
    shutil.rmtree(tree.path)
    Path(tree.admin, "gitdir").write_text(f"{outside}/.git\n")


def _name_ignored_folder(tree: LinkedTree, outside: Path) -> None:
    """To git all is ignored there: it would delete that even without force."""
    _name_folder(tree, outside)
    _common(tree).joinpath("info", "exclude").write_text("*\n")


def _link_tree(tree: LinkedTree, outside: Path) -> None:
    """The tree is a link to a folder whose `.git` leads to git's folder of the tree."""
    shutil.rmtree(tree.path)
    Path(tree.path).symlink_to(outside)
    (outside / ".git").write_text(f"gitdir: {tree.admin}\n")


def _link_settings(tree: LinkedTree, outside: Path) -> None:
    config = _common(tree) / "config"
    (outside / "config").write_text(config.read_text() + '[branch "w/t"]\n\tremote = x\n')
    config.unlink()
    config.symlink_to(outside / "config")


def _link_folder_of_locks(tree: LinkedTree, outside: Path) -> None:
    shutil.rmtree(_common(tree) / "ackbus")
    _common(tree).joinpath("ackbus").symlink_to(outside)


def _link_lock(name: str) -> Callable[[LinkedTree, Path], None]:
    def plant(tree: LinkedTree, outside: Path) -> None:
        _common(tree).joinpath("ackbus", name).unlink(missing_ok=True)
        _common(tree).joinpath("ackbus", name).symlink_to(outside / "made")

    return plant


def _link_in_admin(name: str) -> Callable[[LinkedTree, Path], None]:
    def plant(tree: LinkedTree, outside: Path) -> None:
        Path(tree.admin, name).unlink(missing_ok=True)
        Path(tree.admin, name).symlink_to(outside / "x")

    return plant


def _common(tree: LinkedTree) -> Path:
    return Path(tree.admin).parent.parent


AWAY: dict[str, Callable[[LinkedTree, Path], None]] = {
    "folder": _name_folder,
    "ignored folder": _name_ignored_folder,
    "tree is a link": _link_tree,
    "settings": _link_settings,
    "folder of locks": _link_folder_of_locks,
    **{name: _link_lock(name) for name in ("trees.lock", "task-t.lock")},
    **{f"{name} of the tree": _link_in_admin(name) for name in ("HEAD", "index", "locked")},
    **{f"{name} of the tree": _link_in_admin(name) for name in ("commondir", "gitdir", "refs")},
    **{f"{name} of the tree": _link_in_admin(name) for name in ("ackbus.json", "index.lock")},
    **{f"{name} of the tree": _link_in_admin(name) for name in ("ackbus.json.new", "HEAD.new")},
}


def _again(trees: WorkTrees) -> object:
    base = git(Path(trees.place.main), "rev-parse", "main")
    return trees.make(NewTree("t", "w/t", base, is_known=True))


TREE_ACTS: dict[str, Callable[[WorkTrees], object]] = {
    "make again": _again,
    "remove": lambda trees: Removal(trees).remove("t", "w/t"),
    "remove and keep": lambda trees: Removal(trees).remove("t", "w/t", keeps_files=True),
    "say": lambda trees: Removal(WorkTrees(trees.place, is_looking=True)).check("t"),
    "find": lambda trees: find_leftovers(WorkTrees(trees.place, is_looking=True)),
}


def _all_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder, and when it last changed."""
    paths = [folder, *folder.rglob("*")]
    status = {str(path): path.lstat() for path in paths}
    return {name: (there.st_ino, there.st_mtime_ns) for name, there in status.items()}


#: By day those that once led away.
ONCE = ("folder", "ignored folder", "tree is a link", "settings", "folder of locks")


@pytest.mark.parametrize(
    ("kind", "act"), [case(*both, by_day=both[0] in ONCE) for both in product(AWAY, TREE_ACTS)]
)
def test_nothing_is_written_or_deleted_where_a_tree_leads(
    kind: str, act: str, tmp_path: Path
) -> None:
    """Issue 29: `bus task clean --rescue` deleted the folder that an unpacked `.git` named."""
    main, _, outside = folders(tmp_path)
    git(main, "init", "--quiet", "--initial-branch", "main")
    git(main, "commit", "--quiet", "--allow-empty", "--message", "first")
    trees = WorkTrees(RepositoryPlace.around(str(main)))
    tree = trees.make(NewTree("t", "w/t", git(main, "rev-parse", "main")))
    if act == "remove and keep":
        Path(tree.path, "new").write_text("not committed\n")
    AWAY[kind](tree, outside)
    before = _all_of(outside)
    with suppress(AckbusError):
        TREE_ACTS[act](WorkTrees(RepositoryPlace.around(str(main)), wait_s=1))
    assert _all_of(outside) == before
