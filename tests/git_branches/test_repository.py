"""Git as a process: its environment, and its time limit."""

import os
from pathlib import Path

import pytest

from ackbus.git import limited
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.repository import CommandFailed, LookCut, OutOfTime, Repository

from ..cli.git import Git
from ..conftest import wait_until
from .conftest import has_ended
from .plain_git import git


def test_git_and_what_it_started_end_at_the_limit(tmp_path: Path) -> None:
    repository = Repository(str(tmp_path))
    repository.run("init", "--quiet")
    waits = "alias.hang=!echo $$ >pid; trap '' TERM; while :; do sleep 0.1; done"
    with pytest.raises(OutOfTime, match=r"git hang has not ended within 1 s"):
        repository.run("-c", waits, "hang", limit_s=1)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: has_ended(pid))


def test_what_is_left_in_the_background_holds_nobody_up(tmp_path: Path) -> None:
    repository = Repository(str(tmp_path))
    repository.run("init", "--quiet")
    left = "alias.leave=!sleep 60 & echo $! >pid; echo done"
    assert repository.run("-c", left, "leave", limit_s=30) == b"done\n"
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_input_output_and_errors_within_a_limit(tmp_path: Path) -> None:
    repository = Repository(str(tmp_path))
    repository.run("init", "--quiet")
    blob = repository.run("hash-object", "-w", "--stdin", stdin=b"hello", limit_s=30)
    assert repository.run("cat-file", "blob", blob.decode().strip(), limit_s=30) == b"hello"
    with pytest.raises(CommandFailed, match="Not a valid object name nothing"):
        repository.run("cat-file", "blob", "nothing", limit_s=30)


def test_variables_are_given_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    repository = Repository(str(tmp_path), {"GIT_DIR": None, "GIT_AUTHOR_NAME": "Zoë"})
    repository.run("init", "--quiet")
    told = "alias.tell=!echo $GIT_AUTHOR_NAME"
    assert repository.run("-c", told, "tell").decode() == "Zoë\n"


def test_calls_of_one_look_share_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two repositories that never answer is not even asked."""
    monkeypatch.setattr(limited, "LOOK_S", 1.0)
    waiting = []
    for name in ("a", "b"):
        repository = Repository(str(tmp_path))
        repository.run("init", "--quiet", name)
        (tmp_path / name / ".git" / "HEAD").unlink()
        os.mkfifo(tmp_path / name / ".git" / "HEAD")
        waiting.append(Repository(str(tmp_path / name)))
    with limited.one_look():
        for repository in waiting:
            with pytest.raises(LookCut, match="is not looked into: git rev-parse had no answer"):
                repository.run("rev-parse", "HEAD")
        assert limited.seconds_left() == 0
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(LookCut):  # git is not looked for any more
            waiting[0].run("rev-parse", "HEAD")
    assert limited.seconds_left() is None


# The main work tree, wherever the repository lies.


def apart(main: Path) -> Path:
    """Moves the repository of a work tree away from it."""
    git(main, "init", "--quiet", "--separate-git-dir", str(main.parent / "apart.git"))
    return main.parent / "apart.git"


def test_main_tree_of_a_repository_that_lies_apart(main: Git) -> None:
    """`git init --separate-git-dir` notes the tree nowhere: it is the one by which it was found."""
    (main.path / "sub").mkdir()
    common = apart(main.path)
    tree = main.path.parent / "tree"
    git(main.path, "worktree", "add", "--quiet", "-b", "more", str(tree))
    found = {
        str(folder): RepositoryPlace.around(str(folder))
        for folder in (main.path, main.path / "sub")
    }
    assert {place.main for place in found.values()} == {str(main.path)}
    linked = RepositoryPlace.around(str(tree))
    assert linked.main == str(common)  # what git itself says
    assert {place.common_dir for place in (*found.values(), linked)} == {str(common)}
    assert RepositoryPlace.around(str(main.path)) == linked
    git(main.path, "config", "core.worktree", str(main.path))
    assert RepositoryPlace.around(str(tree)).main == str(main.path)


def test_folder_whose_git_file_names_another_s_repository_is_not_its_main_tree(
    main: Git, tmp_path: Path
) -> None:
    """Such a file, which a clone or an agent can have written, moves no main work tree."""
    false = tmp_path / "false"
    false.mkdir()
    (false / ".git").write_text(f"gitdir: {main.path / '.git'}\n")
    assert RepositoryPlace.around(str(false)).main == str(main.path)


def test_main_tree_of_a_submodule(main: Git, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(main.path), "origin")
    local = ("-c", "protocol.file.allow=always")
    git(main.path, *local, "submodule", "--quiet", "add", str(tmp_path / "origin"), "module")
    assert RepositoryPlace.around(str(main.path / "module")).main == str(main.path / "module")
    assert RepositoryPlace.around(str(main.path)).main == str(main.path)
