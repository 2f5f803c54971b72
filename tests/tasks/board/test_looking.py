"""Looking at a bus and a repository that came from others runs nothing of theirs."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ackbus.git.repository import GitFailed
from ackbus.git.sealed import NotTrusted
from ackbus.git.trees.tree_list import LinkedTree
from ackbus.git.trees.tree_state import read_state
from ackbus.schema.errors import NotFound, Refused
from ackbus.tasks.board.board import Boards
from ackbus.tasks.board.comments import comment, place_in
from ackbus.tasks.board.forecast import (
    TaskRepositories,
    changed_by,
    forecast_of_refs,
    forecast_of_tasks,
)
from ackbus.tasks.finish import Cleaner, TaskDiff, tree_of
from ackbus.tasks.records.task import Task
from ackbus.tasks.spawn import Spawner

from ...git_branches.plain_git import git
from .conftest import Workshop

#: Names of a repository as a row may have them; only the first is a place, and nobody named it.
STRANGE = [
    "{elsewhere}/.git",
    "repository/.git",
    "./.git",
    ".git",
    "..",
    "",
    "~/repository/.git",
    "$HOME/.git",
    "--upload-pack=touch it-ran",
    "-C/tmp",
    "ext::sh -c touch% it-ran",
    "file://{elsewhere}/.git",
    "{elsewhere}/.git\nx",
    "{elsewhere}/../elsewhere/.git",
    "/",
    "{elsewhere}/link",
]


def set_trap(workshop: Workshop) -> Path:
    """The file that every program of the repository makes: its drivers, hooks, pagers and more."""
    made = workshop.path.parent / "it-ran"
    command = f"touch {made}; false"
    for key in (
        *("merge.evil.driver", "diff.evil.command", "diff.evil.textconv", "diff.external"),
        *("filter.evil.clean", "core.fsmonitor", "core.pager", "core.editor", "gpg.program"),
        *("remote.origin.uploadpack", "core.sshCommand", "alias.diff", "core.askPass"),
    ):
        git(workshop.path, "config", key, command)
    git(workshop.path, "config", "extensions.partialClone", "origin")
    git(workshop.path, "config", "core.repositoryFormatVersion", "1")
    git(workshop.path, "config", "remote.origin.url", str(workshop.path))
    git(workshop.path, "config", "remote.origin.promisor", "true")
    attributes = "a merge=evil diff=evil filter=evil\n"
    (workshop.path / ".git" / "info").mkdir(exist_ok=True)
    (workshop.path / ".git" / "info" / "attributes").write_text(attributes)
    return made


def two_that_clash(workshop: Workshop, **more: str) -> tuple[Task, Task]:
    one, two = (workshop.begin(name) for name in ("one", "two"))
    for task in (one, two):
        workshop.commit(task, a=f"{task.task}\n", **more)
    return one, two


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with a repository that nobody named, as a part of a clone may be."""
    path = tmp_path / "elsewhere"
    git(tmp_path, "init", "--quiet", "-b", "main", str(path))
    git(path, "commit", "--quiet", "--allow-empty", "--message", "first")
    (path / "link").symlink_to(path / ".git")
    return path


def test_what_a_driver_would_make_is_not_known_and_nothing_is_run(workshop: Workshop) -> None:
    two_that_clash(workshop)
    trap = set_trap(workshop)
    (clash,) = forecast_of_tasks(workshop.bus)
    assert (clash.a, clash.b, clash.files) == ("one", "two", ("a",))
    assert clash.not_known is not None
    assert "not_known" in clash.record()
    assert forecast_of_refs(workshop.bus, ["worker-1/one", "worker-1/two"], ".")
    board = Boards(workshop.bus).now()
    assert (board.problem, len(board.clashes)) == (None, 1)
    assert "+one" in TaskDiff.of(workshop.bus, workshop.tasks.get("one")).text()
    assert not trap.exists()


def test_a_file_of_messages_is_merged_by_this_program(workshop: Workshop) -> None:
    attributes = {"bus/.gitattributes": "bus.jsonl merge=ackbus filter=ackbus\n"}
    for name in ("one", "two"):
        line = f'{{"id":"{name}","ts":"2026-01-01T00:00:00.000Z","type":"t","from":"a"}}\n'
        workshop.commit(workshop.begin(name), **attributes, **{"bus/bus.jsonl": line})
    assert forecast_of_tasks(workshop.bus) == []
    for name, payload in (("three", "1"), ("four", "2")):
        line = (
            '{"id":"same","ts":"2026-01-01T00:00:00.000Z","type":"t","from":"a",'
            f'"payload":{payload}}}\n'
        )
        workshop.commit(workshop.begin(name), **attributes, **{"bus/bus.jsonl": line})
    (clash,) = forecast_of_tasks(workshop.bus)
    assert ({clash.a, clash.b}, clash.files) == ({"three", "four"}, ("bus/bus.jsonl",))


def test_a_missing_object_is_not_fetched(workshop: Workshop) -> None:
    two_that_clash(workshop)
    trap = set_trap(workshop)
    (workshop.path / ".git" / "info" / "attributes").unlink()
    blob = git(workshop.path, "rev-parse", "worker-1/one:a")
    (workshop.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (clash,) = forecast_of_tasks(workshop.bus)
    assert clash.not_known is not None
    assert Boards(workshop.bus).now().problem is None
    assert not trap.exists()


@pytest.mark.parametrize("name", STRANGE)
def test_a_repository_that_only_a_row_names_is_not_looked_into(
    workshop: Workshop, elsewhere: Path, name: str
) -> None:
    task = workshop.begin("one", repository=name.format(elsewhere=elsewhere))
    board = Boards(workshop.bus).now()
    assert "is not looked into" in (board.problem or "")
    with pytest.raises(NotTrusted, match="is not looked into"):
        TaskDiff.of(workshop.bus, task)
    for act in (
        lambda: tree_of(workshop.bus, task),
        lambda: Spawner(workshop.bus).mend(task),
        lambda: comment(workshop.bus, "one", place_in("a:1"), "why", agent="rita"),
    ):
        with pytest.raises(NotTrusted, match="is not looked into"):
            act()
    workshop.tasks.cancel("one", agent="lead")
    workshop.clock.advance(10**6)
    (cleaned,) = Cleaner(workshop.bus).clean()
    assert not cleaned.is_removed


def tree_at(path: Path) -> LinkedTree:
    """A repository's own work tree, as one of a task is described."""
    return LinkedTree(str(path), str(path / ".git"), None, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["--output={made}", "-O{made}", "--exec=touch {made}", "a b\nc"])
@pytest.mark.parametrize("column", ["base", "head", "branch", "target"])
def test_no_word_of_a_row_is_an_option_of_git(
    workshop: Workshop, tmp_path: Path, column: str, value: str
) -> None:
    made = tmp_path / "it-ran"
    task = replace(two_that_clash(workshop)[0], **{column: value.format(made=made)})
    for look in (TaskDiff.of, lambda bus, task: changed_by([task], TaskRepositories(bus))):
        with suppress(NotFound):
            look(workshop.bus, task)
    with suppress(Refused, GitFailed):
        read_state(tree_at(workshop.path), value.format(made=made))
    assert not made.exists()


def test_the_path_of_a_row_is_no_place_to_make_a_tree_at(
    workshop: Workshop, tmp_path: Path
) -> None:
    task = workshop.begin("one", path=str(tmp_path / "out"))
    with pytest.raises(Refused, match="belongs at"):
        Spawner(workshop.bus).mend(task)
    assert not (tmp_path / "out").exists()


def test_the_list_of_the_user_names_more(
    workshop: Workshop, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_that_clash(workshop)
    monkeypatch.chdir(elsewhere)
    assert forecast_of_tasks(workshop.bus) == []
    for entry in (str(workshop.path), os.path.join(workshop.path, ".git"), "*"):
        monkeypatch.setenv("BUS_SAFE_DIRECTORIES", entry)
        assert len(forecast_of_tasks(workshop.bus)) == 1


@pytest.mark.parametrize("name", ["packed-refs", "shallow", "objects/info/alternates"])
def test_a_pipe_in_a_repository_is_not_waited_for(workshop: Workshop, name: str) -> None:
    two_that_clash(workshop)
    path = workshop.path / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert "is no plain file" in (Boards(workshop.bus).now().problem or "")
