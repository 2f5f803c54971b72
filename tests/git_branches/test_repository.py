"""Git as a process: its environment, and its time limit."""

import os
from pathlib import Path

import pytest

from ackbus.git import limited
from ackbus.git.repository import GitCommandFailed, LookCut, OutOfTime, Repository

from ..conftest import wait_until
from .conftest import has_ended


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
    with pytest.raises(GitCommandFailed, match="Not a valid object name nothing"):
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
