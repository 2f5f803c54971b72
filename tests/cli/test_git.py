"""The bus in git: setup, diffs for people, the traffic of commits."""

import json
from pathlib import Path

import pytest

from ..conftest import Ended
from .clones import Clone
from .conftest import assert_error

pytestmark = pytest.mark.slow  # starts many processes


def traffic(clone: Clone, *args: str) -> list[tuple[str, list[str]]]:
    """Subjects and message payloads of `bus log`."""
    commits = map(json.loads, clone.bus("log", "--json", *args).splitlines())
    return [(each["subject"], [m["payload"] for m in each["messages"]]) for each in commits]


def test_setup_adds_what_is_missing_and_keeps_what_is_there(repository: Clone) -> None:
    ignore, attributes = (repository.bus_dir / f".git{name}" for name in ("ignore", "attributes"))
    ignore.write_text(ignore.read_text() + "mine\n!/.gitattributes")
    attributes.write_text("mine -text\n")
    repository.git("config", "diff.ackbus.textconv", "something else")
    done = repository.bus("setup", "git").splitlines()
    assert f"added {ignore}: !/bus.jsonl" in done
    assert "added git config diff.ackbus.textconv" in done
    assert not [line for line in done if line.endswith(": !/.gitattributes")]
    lines = ignore.read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert {"*", "mine", "!/.gitignore", "!/.gitattributes", "!/bus.jsonl"} <= set(lines)
    assert attributes.read_text().splitlines()[0] == "mine -text"
    assert repository.git("check-attr", "merge", ".worker-state/bus.jsonl").endswith(": ackbus")
    before = ignore.read_bytes(), attributes.read_bytes(), repository.git("config", "--list")
    assert repository.bus("setup", "git") == "nothing to do\n"
    assert before == (ignore.read_bytes(), attributes.read_bytes(), repository.git("config", "-l"))


def test_setup_can_be_checked_and_removed(repository: Clone) -> None:
    before = {path.name: path.read_bytes() for path in repository.bus_dir.glob(".git*")}
    config = repository.git("config", "--local", "--list")
    checked = repository.try_bus("setup", "git", "--check", "--json")
    assert checked.code == 3
    assert len(json.loads(checked.out)["missing"]) == 13
    assert repository.git("config", "--local", "--list") == config
    repository.bus("setup", "git")
    assert repository.bus("setup", "git", "--check") == "nothing is missing\n"
    assert len(repository.bus("setup", "git", "--remove").splitlines()) == 13
    assert {path.name: path.read_bytes() for path in repository.bus_dir.glob(".git*")} == before
    assert repository.git("config", "--local", "--list") == config
    assert_error(repository.try_bus("setup", "git", "--check", "--remove"), 2, "not both")


def test_a_filter_that_fails_puts_nothing_into_git(repository: Clone) -> None:
    """Pitfall 25: markers, or no program: git refuses, rather than take the file as it is."""
    repository.bus("setup", "git")
    repository.publish("one")
    repository.commit()
    whole = repository.jsonl.read_text()
    repository.jsonl.write_text("<<<<<<< ours\n" + whole)
    refused = repository.try_git("add", ".worker-state/bus.jsonl")
    assert refused.code != 0
    assert "line 1 of .worker-state/bus.jsonl is a conflict marker of git: keep one" in refused.err
    repository.jsonl.write_text(whole + "\n")
    repository.git("config", "filter.ackbus.clean", "/nowhere/bus git-clean %f")
    assert repository.try_git("add", ".worker-state/bus.jsonl").code != 0
    assert repository.git("diff", "--cached", "--name-only") == ""


def test_setup_tells_that_every_clone_needs_it(repository: Clone) -> None:
    assert "every other clone runs 'bus setup git' too" in repository.try_bus("setup", "git").err


def test_only_what_others_need_goes_into_git(repository: Clone) -> None:
    repository.bus("setup", "git")
    repository.bus("export", "--rotate", "100kB")
    repository.publish_all(["x" * 4000] * 30)
    ref = json.loads(repository.bus("show", repository.publish("y" * 5000), "--json"))[
        "payload_ref"
    ]
    repository.commit()
    names = {Path(line).name for line in repository.git("ls-files").splitlines()}
    assert names == {".gitignore", ".gitattributes", "bus.jsonl", ref}
    assert list(repository.bus_dir.glob("bus-*.jsonl"))
    assert len(repository.in_git()) == 31


def test_a_diff_has_readable_lines(repository: Clone) -> None:
    """Issue 4: who → whom, type, first words; pitfall 24: control characters are shown."""
    repository.bus("setup", "git")
    repository.publish("first")
    repository.commit()
    repository.bus("publish", "task.assign", "red \x1b[31m\nmore", "--from", "ann", "--to", "bo")
    repository.bus("publish", "blob", "z" * 5000, "--from", "bo")
    repository.export()
    lines = repository.git("diff", "--", ".worker-state/bus.jsonl").splitlines()[4:]
    assert [line[0] for line in lines] == ["@", " ", "+", "+"]
    assert lines[1].endswith("Z  ann → all  note  first")
    assert lines[2].endswith("Z  ann → bo  task.assign  red \\x1b[31m…")
    assert "  bo → all  blob  [blob sha256-" in lines[3]


def test_a_diff_is_not_disturbed_by_a_cut(repository: Clone) -> None:
    """The folder's bus.jsonl has only the newest lines, git's has all."""
    repository.bus("setup", "git")
    repository.publish_all(f"{number} " + "x" * 4000 for number in range(30))
    repository.commit()
    repository.bus("export", "--rotate", "100kB")
    repository.publish("new")
    repository.export()
    changed = [
        line
        for line in repository.git("diff").splitlines()
        if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
    ]
    assert len(changed) == 1
    assert changed[0].endswith("note  new")


@pytest.fixture
def history(repository: Clone) -> Clone:
    """Commits one, two and three; two has no message, three has two of them."""
    repository.bus("setup", "git")
    repository.bus("publish", "task.assign", "a", "--id", "c1", "--from", "ann", "--to", "bo")
    repository.commit("one")
    (repository.path / "a.py").touch()
    repository.git("add", "-A")
    repository.git("commit", "-qm", "two")
    repository.bus("publish", "task.done", "b", "--reply-to", "c1", "--from", "bo")
    repository.bus("publish", "note", "c", "--from", "cy")
    repository.commit("three")
    return repository


def test_log_shows_what_each_commit_added(history: Clone) -> None:
    assert traffic(history) == [("three", ["b", "c"]), ("one", ["a"])]
    assert traffic(history, "HEAD~1") == [("one", ["a"])]
    assert traffic(history, "HEAD~1..HEAD") == [("three", ["b", "c"])]
    assert traffic(history, "-n", "1") == [("three", ["b", "c"])]
    head = history.git("log", "-1", "--format=%h  %aI  Ann  three").strip()
    lines = history.bus("log").splitlines()
    assert lines[0] == head
    assert lines[1].startswith("  2")
    assert lines[1].endswith("Z  bo → all  task.done  b")
    assert lines[3] == ""


def test_log_takes_the_filters_of_read(history: Clone) -> None:
    assert traffic(history, "--agent", "bo") == [("three", ["b"]), ("one", ["a"])]
    assert traffic(history, "--agent", "bo", "--type", "*.done") == [("three", ["b"])]
    assert traffic(history, "--conversation", "c1") == [("three", ["b"]), ("one", ["a"])]
    nothing = history.try_bus("log", "--agent", "nobody")
    assert nothing == Ended(4, "", "")


def test_log_needs_no_bus_and_no_files(history: Clone, tmp_path: Path) -> None:
    """A reviewer's clone; a bare repository on a server; a folder below; another bus left out."""
    expected = traffic(history)
    for kind in ([], ["--bare"]):
        path = tmp_path / f"copy{len(kind)}"
        history.git("clone", "-q", *kind, str(history.path), str(path))
        assert traffic(Clone(path, history.run_bus, history.env)) == expected
    below = history.path / "deep"
    below.mkdir()
    assert traffic(Clone(below, history.run_bus, history.env)) == expected
    history.bus("init", "--dir", "deep/.worker-state")
    history.publish("d", "--dir", "deep/.worker-state")
    history.bus("export", "--stage", "--dir", "deep/.worker-state")
    history.commit("four")
    assert traffic(history) == [("four", ["d"]), *expected]
    assert traffic(history, "--dir", ".worker-state") == expected
    assert traffic(history, "--dir", "deep/.worker-state") == [("four", ["d"])]


def test_what_a_person_keeps_beside_the_parts_stays_in_git(repository: Clone) -> None:
    """It is not taken out, in a bus that cuts its file and in one that doesn't."""
    kept = ["bus-20261121.jsonl", "bus-202611.jsonl", "bus-notes.jsonl"]
    for name in kept:
        (repository.bus_dir / name).write_text("mine\n")
    repository.git("add", "-f", *(f".worker-state/{name}" for name in kept))
    repository.bus("setup", "git")
    repository.bus("export", "--rotate", "100kB")
    repository.publish_all(["x" * 4000] * 30)
    repository.commit()
    repository.bus("setup", "git", "--check")
    tracked = repository.git("ls-files", ".worker-state/bus-*").splitlines()
    assert [Path(name).name for name in tracked] == sorted(kept)


def test_log_counts_a_line_that_only_moved_as_old(repository: Clone) -> None:
    """Without setup the parts themselves are in git: a cut moves lines from file to file."""
    repository.publish_all(f"{number} " + "x" * 4000 for number in range(30))
    repository.commit("one")
    repository.bus("export", "--rotate", "100kB")
    repository.publish("new")
    repository.commit("cut")
    assert "bus-000001.jsonl" in repository.git("ls-files")
    repository.bus("setup", "git")
    (repository.path / "touched").touch()
    repository.publish("newer")
    repository.commit("set up")
    (newer, new, begun) = traffic(repository)
    assert (newer, new) == (("set up", ["newer"]), ("cut", ["new"]))
    assert len(begun[1]) == 30


def test_log_shows_what_came_with_a_merge_once(two_clones: tuple[Clone, Clone]) -> None:
    first, second = two_clones
    first.publish("from the first")
    first.commit("first")
    first.push()
    second.publish("from the second")
    second.commit("second")
    second.pull()
    found = traffic(second)
    assert sorted(body for _, bodies in found for body in bodies) == [
        *("begun 0", "begun 1", "begun 2", "from the first", "from the second")
    ]
    assert {subject for subject, _ in found} == {"begin", "first", "second"}


def test_log_shows_what_only_a_merge_has(two_clones: tuple[Clone, Clone]) -> None:
    """Said while a conflict was resolved, and committed with the merge; nothing twice."""
    first, second = two_clones
    for clone, body in ((first, "this"), (second, "that")):
        clone.publish(body, "--id", "both")
        clone.commit(body)
    first.push()
    assert second.try_git("pull", "-q", "--no-rebase", "origin", "main").code != 0
    own = [line for line in second.jsonl.read_text().splitlines() if "this" not in line]
    second.jsonl.write_text("".join(f"{line}\n" for line in own if line[0] == "{"))
    second.publish("meanwhile")
    second.commit("merged")
    found = traffic(second)
    assert found[0] == ("merged", ["meanwhile"])
    assert sorted(
        body for _, bodies in found for body in bodies if not body.startswith("begun")
    ) == [*("meanwhile", "that", "this")]


def test_log_is_not_led_astray_by_a_configuration(history: Clone) -> None:
    expected = traffic(history)
    for name, value in (
        ("color.ui", "always"),
        ("diff.noprefix", "true"),
        ("log.showSignature", "true"),
        ("log.showRoot", "false"),
        ("diff.external", "/bin/false"),
        ("core.pager", "/bin/false"),
    ):
        history.git("config", name, value)
    assert traffic(history) == expected


def test_log_of_nothing_says_why(repository: Clone, tmp_path: Path) -> None:
    """Bad input: no repository, no commits, no such revision, no git: one line and a code."""
    assert_error(repository.try_bus("log"), 4, "no commits yet")
    repository.commit("one")
    told = "bus: no commit of HEAD added messages to a bus.jsonl\n"
    assert repository.try_bus("log") == Ended(4, "", told)
    assert_error(repository.try_bus("log", "nowhere"), 4, "no revision 'nowhere'")
    assert_error(repository.try_bus("log", "nowhere..HEAD"), 4, "no revision")
    assert_error(repository.try_bus("log", "--", "--output=x"), 4, "no revision '--output=x'")
    assert_error(repository.try_bus("log", "--dir", "not-there"), 1, "is not there")
    assert_error(repository.try_bus("log", "--type", "a..b*"), 2)
    apart = Clone(tmp_path, repository.run_bus, repository.env)
    assert_error(apart.try_bus("log"), 1, "is in no git repository")
    alone = Clone(repository.path, repository.run_bus, {**repository.env, "PATH": "/nowhere"})
    assert_error(alone.try_bus("log"), 1, "git is not installed")
    assert not (repository.path / "x").exists()


def test_filter_finds_gits_lines_however_paths_are_meant(repository: Clone) -> None:
    """Nothing that git has is taken out by `git --literal-pathspecs add`, or a variable."""
    repository.bus("setup", "git")
    repository.publish("one")
    repository.commit()
    before = repository.in_git()
    for option in ("--literal-pathspecs", "--icase-pathspecs", "--glob-pathspecs"):
        repository.jsonl.write_text("")
        repository.git(option, "add", ".worker-state/bus.jsonl")
        assert repository.git("diff", "--cached", "--name-only") == ""
        assert repository.in_git() == before
