"""The plugin that watches files and repositories: real files, real git."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .asking import Plugin

#: Commits of a test's own, whoever runs it, and whatever git is told elsewhere.
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@x.example",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@x.example",
}


def watch(path: Path, **config: Any) -> Plugin:
    return Plugin("watch", {"path": str(path)} | config, **GIT)


def changes(plugin: Plugin) -> list[tuple[str, str]]:
    """The type of each event, and the name of its file or ref."""
    return [
        (each["type"].rpartition(".")[2], each["payload"].get("name") or each["payload"]["ref"])
        for each in plugin.poll().events
    ]


def test_what_changes_in_a_folder_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "below").mkdir(parents=True)
    (folder / "old.csv").write_text("1")
    plugin = watch(folder)
    first = plugin.poll()
    assert (first.events, first.response["result"]) == ([], "the first look: 1 files")
    (folder / "below/new.csv").write_text("22")
    (folder / "old.csv").write_text("333")
    found = plugin.poll()
    assert [event["type"] for event in found.events] == ["file.added", "file.changed"]
    new = found.payloads[0]
    assert new.pop("modified").endswith("Z")
    assert new == {"path": f"{folder}/below/new.csv", "name": "new.csv", "size": 2}
    assert changes(plugin) == []
    (folder / "below/new.csv").unlink()
    assert changes(plugin) == [("removed", "new.csv")]


def test_a_file_that_is_replaced_by_one_of_its_size_and_time_has_changed(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("a")
    plugin = watch(file)
    plugin.poll()
    other.write_text("b")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    other.rename(file)
    assert changes(plugin) == [("changed", "file")]
    file.unlink()
    assert changes(plugin) == [("removed", "file")]
    file.write_text("c")
    assert changes(plugin) == [("added", "file")]


def test_patterns_choose_files_and_keep_out_of_folders(tmp_path: Path) -> None:
    plugin = watch(tmp_path, include=["*.csv", "logs/*"], exclude=[".git", "old*"])
    plugin.poll()
    for name in ("a.csv", "a.txt", "logs/b", "x/c.csv", "x/old.csv", ".git/d.csv", "a.csv\n"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(changes(plugin)) == [("added", "a.csv"), ("added", "b"), ("added", "c.csv")]


def test_links_and_pipes_are_left_out_and_never_followed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    plugin = watch(folder)
    plugin.poll()
    (tmp_path / "secret").write_text("x")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    assert changes(plugin) == []


def test_any_name_of_a_file_is_told_as_text(tmp_path: Path) -> None:
    plugin = watch(tmp_path)
    plugin.poll()
    names = [b"\xff", "ä".encode(), b"a\nb", b'"$(id)']
    for name in names:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_text("")
    assert sorted(changes(plugin)) == [
        *(("added", '"$(id)'), ("added", "\\xFF"), ("added", "a\nb"), ("added", "ä")),
    ]
    assert changes(plugin) == []


def test_what_one_look_leaves_comes_with_the_next(tmp_path: Path) -> None:
    plugin = watch(tmp_path, max_events=2)
    plugin.poll()
    for name in "abc":
        (tmp_path / name).write_text("")
    assert changes(plugin) == [("added", "a"), ("added", "b")]
    (tmp_path / "a").unlink()
    assert changes(plugin) == [("removed", "a"), ("added", "c")]
    assert changes(plugin) == []


def test_another_path_begins_with_a_first_look(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    plugin = watch(tmp_path / "one")
    plugin.poll()
    plugin.config["path"] = str(tmp_path / "two")
    assert changes(plugin) == []
    assert list(plugin.state["files"]) == ["two"]


@pytest.mark.slow
def test_more_than_a_state_holds_is_refused_with_what_to_write(tmp_path: Path) -> None:
    for folder in range(20):
        path = tmp_path / ("x" * 200) / str(folder)
        path.mkdir(parents=True)
        for name in range(200):
            (path / str(name)).write_text("")
    told = watch(tmp_path).refused()
    assert "watch a smaller folder, or write include" in told


class Repository:
    """A repository with a work tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", self.path, *words],
            env=os.environ | GIT,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, subject: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_commits_of_a_branch_are_told_with_what_they_are(repository: Repository) -> None:
    first = repository.commit("first")
    plugin = watch(repository.path, git=True)
    assert changes(plugin) == []
    second, third = repository.commit("second\n\nmore"), repository.commit("Grüße \x1b[31m")
    (event,) = plugin.poll().events
    assert event["type"] == "git.ref.moved"
    payload = event["payload"]
    assert [each["id"] for each in payload["commits"]] == [third, second]
    assert [each["subject"] for each in payload["commits"]] == ["Grüße \x1b[31m", "second"]
    assert {each["author"] for each in payload["commits"]} == {"Ann"}
    assert (payload["before"], payload["after"], payload["count"]) == (first, third, 2)
    assert (payload["ref"], payload["forced"]) == ("refs/heads/main", False)
    assert payload["repository"] == str(repository.path)
    assert changes(plugin) == []


def test_branches_and_tags_come_and_go_and_are_forced(repository: Repository) -> None:
    first = repository.commit("first")
    plugin = watch(repository.path, git=True)
    plugin.poll()
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("second")
    repository.git("tag", "v1")
    created = plugin.poll()
    assert [event["type"] for event in created.events] == ["git.ref.created"] * 2
    assert [(p["ref"], p["count"]) for p in created.payloads] == [
        ("refs/heads/side", 1),
        ("refs/tags/v1", 1),
    ]
    repository.git("reset", "--quiet", "--hard", first)
    repository.commit("other")
    (forced,) = plugin.poll().payloads
    assert (forced["ref"], forced["forced"], forced["count"]) == ("refs/heads/side", True, 1)
    repository.git("reset", "--quiet", "--hard", "v1")
    assert changes(plugin) == [("moved", "refs/heads/side")]  # there and back is told each time
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "--quiet", "-D", "side")
    (gone,) = plugin.poll().events
    assert gone["type"] == "git.ref.removed"
    assert "commits" not in gone["payload"]


def test_a_commit_that_git_has_thrown_away_keeps_nothing_from_being_told(
    repository: Repository,
) -> None:
    first = repository.commit("first")
    plugin = watch(repository.path, git=True)
    repository.commit("second")
    plugin.poll()
    repository.git("reset", "--quiet", "--hard", first)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    (moved,) = plugin.poll().payloads
    assert (moved["after"], moved["forced"]) == (first, True)


def test_only_the_refs_that_are_wanted_are_watched(repository: Repository) -> None:
    repository.commit("first")
    plugin = watch(repository.path, git=True, refs=["refs/heads/main"])
    plugin.poll()
    repository.git("branch", "side")
    repository.commit("second")
    assert changes(plugin) == [("moved", "refs/heads/main")]


@pytest.mark.slow
def test_a_remote_is_fetched_where_the_operator_says_so(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("first")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", str(repository.path), str(clone))
    plugin, still = watch(clone, git=True, fetch=True), watch(clone, git=True)
    plugin.poll()
    still.poll()
    repository.commit("second")
    assert changes(still) == []
    assert changes(plugin) == [("moved", "refs/remotes/origin/main")]
    assert changes(plugin) == []
    repository.path.rename(tmp_path / "moved")
    error, retry = plugin.fails()
    assert error.startswith(f"git fetch failed in {clone}: fatal: '{repository.path}' does not")
    assert retry


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"path": ""}, "path: write where"),
        ({"path": "here"}, "path: write it from the root on"),
        ({"path": ["/"]}, "path: write a text"),
        ({"path": "/nowhere/at/all"}, "path: /nowhere/at/all"),
        ({"path": "/dev/null"}, "neither a file nor a folder"),
        ({"path": "/", "include": "*.csv"}, "include: write a list"),
        ({"path": "/", "git": "yes"}, "git: write true or false"),
        ({"path": "/", "refs": ["refs/heads"]}, "write git: true"),
        ({"path": "/", "git": True, "refs": ["main"]}, "refs: main: write a name"),
        ({"path": "/", "git": True, "include": ["*"]}, "include and exclude are of files"),
        ({"path": "/", "max_events": "all"}, "max_events: write a number"),
        ({"path": "/usr/bin", "git": True}, "is no git repository"),
    ],
)
def test_a_wrong_setting_ends_the_attempts_and_says_what_to_write(
    config: dict[str, Any], told: str
) -> None:
    assert told in Plugin("watch", config, **GIT).refused()


def test_health_says_what_is_there(repository: Repository) -> None:
    repository.commit("first")
    assert watch(repository.path, git=True).ask("health").response["result"] == "1 refs"
    (repository.path / "file").write_text("")
    plugin = watch(repository.path, exclude=[".git"])
    assert plugin.ask("health").response["result"] == "1 files"
