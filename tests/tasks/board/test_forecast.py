"""Which live tasks would not merge, and what is kept of it."""

import shutil
from pathlib import Path

import pytest

from ackbus.git.repository import GitFailed
from ackbus.schema.errors import NotFound
from ackbus.tasks.board import forecast
from ackbus.tasks.board.forecast import Clash, forecast_of_refs, forecast_of_tasks

from ...git_branches.plain_git import commit, git
from .conftest import Workshop


def test_live_tasks_that_would_not_merge_are_named_with_their_files(workshop: Workshop) -> None:
    one, two, three = (workshop.begin(name) for name in ("one", "two", "three"))
    assert forecast_of_tasks(workshop.bus) == []
    workshop.commit(one, a="one\n2\n3\n", new="x")
    workshop.commit(two, a="two\n2\n3\n", new="y")
    workshop.commit(three, a="1\n2\nthree\n")
    assert forecast_of_tasks(workshop.bus) == [Clash("one", "two", ("a", "new"))]
    workshop.tasks.cancel("two", agent="lead")
    assert forecast_of_tasks(workshop.bus) == []


def test_a_task_that_is_done_counts_with_its_pinned_commit(workshop: Workshop) -> None:
    one, two = workshop.begin("one"), workshop.begin("two")
    done = workshop.finish(one, a="one\n2\n3\n")
    workshop.commit(two, a="two\n2\n3\n")
    workshop.commit(done, a="1\n2\n3\n")  # moves the branch, not the task
    assert forecast_of_tasks(workshop.bus) == [Clash("one", "two", ("a",))]


def test_a_pair_is_merged_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("one", "two", "three")
    begun = {name: workshop.begin(name) for name in names}
    for name, task in begun.items():
        workshop.commit(task, a=f"{name}\n2\n3\n")
    asked: list[int] = []
    real = forecast.conflicts
    monkeypatch.setattr(
        forecast, "conflicts", lambda of, pairs: (asked.append(len(pairs)), real(of, pairs))[1]
    )
    first = forecast_of_tasks(workshop.bus)
    assert len(first) == 3
    assert forecast_of_tasks(workshop.bus) == first
    workshop.commit(begun["two"], b="two\n")
    assert forecast_of_tasks(workshop.bus) == first
    assert asked == [3, 2]
    workshop.clock.advance(90_000)
    forecast_of_refs(workshop.bus, ["main", "worker-1/one"], str(workshop.path))  # prunes
    forecast_of_tasks(workshop.bus)
    assert asked == [3, 2, 1, 3]


def test_a_task_without_a_branch_or_a_repository_has_nothing_to_merge(workshop: Workshop) -> None:
    one, two = workshop.begin("one"), workshop.begin("two")
    workshop.commit(one, a="one\n2\n3\n")
    workshop.commit(two, a="two\n2\n3\n")
    git(workshop.path, "branch", "--delete", "--force", two.branch)
    assert forecast_of_tasks(workshop.bus) == []
    shutil.rmtree(workshop.path)
    assert forecast_of_tasks(workshop.bus) == []


def test_variables_of_a_hook_name_no_other_repository(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        workshop.commit(workshop.begin(name), a=f"{name}\n2\n3\n")
    git(tmp_path, "init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    assert forecast_of_tasks(workshop.bus) == [Clash("one", "two", ("a",))]
    assert len(forecast_of_refs(workshop.bus, ["one", "two"], str(workshop.path))) == 1


def test_refs_are_branches_commits_or_tasks(workshop: Workshop) -> None:
    path = workshop.path
    workshop.commit(workshop.begin("one"), a="one\n2\n3\n")
    other = commit(path, "other", "main", a="other\n2\n3\n")
    git(path, "update-ref", "refs/heads/--all", other)
    found = forecast_of_refs(workshop.bus, ["one", other, "--all", "main", "one"], str(path))
    assert found == [Clash("one", other, ("a",)), Clash("one", "--all", ("a",))]
    assert found[0].record() == {"a": "one", "b": other, "files": ["a"]}


def test_unknown_refs_are_named_at_once(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no commit or task here is named '-x', 'no'; see"):
        forecast_of_refs(workshop.bus, ["main", "-x", "no"], str(workshop.path))
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(GitFailed, match="is in no git repository"):
        forecast_of_refs(workshop.bus, ["main"], str(tmp_path / "elsewhere"))
