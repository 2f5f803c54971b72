"""An integrator merges by the drivers that `.gitattributes` of the target names, as `git merge`."""

from pathlib import Path

import pytest

from ...cli.conftest import RunBus
from .conftest import Yard, lines

pytestmark = pytest.mark.slow  # starts many processes

#: A driver that takes the longer of two files; it reads another file of the work tree, and prints.
LONGER = """#!/bin/sh
test "$(cat b)" = "$(git show HEAD:b)" || exit 1
echo "merging $4"
test "$(wc -c < "$2")" -ge "$(wc -c < "$3")" || cp "$3" "$2"
"""


def attributes(yard: Yard, text: str, **drivers: str) -> None:
    yard.git.write(".gitattributes", text=text)
    yard.git.write("longer", text=LONGER)
    yard.git.ok("update-index", "--chmod=+x", "longer")
    (yard.git.path / "longer").chmod(0o755)
    yard.git.ok("commit", "--quiet", "-m", "attributes")
    for name, command in drivers.items():
        yard.git.ok("config", f"merge.{name}.driver", command)


def two(yard: Yard, one: str, other: str) -> dict[str, str]:
    """Two tasks that change the file `a`, the first of which lands."""
    yard.task("one", a=one)
    yard.task("two", a=other)
    return yard.integrate()


def text(yard: Yard) -> str:
    return yard.git.ok("show", "main:a")


def test_driver_of_the_tree_merges_what_clashes_as_text(yard: Yard) -> None:
    attributes(yard, "a merge=longer\n", longer="./longer %O %A %B %P")
    outcomes = two(yard, lines(l5="five"), lines(l5="five and more"))
    assert outcomes == {"one": "landed", "two": "landed"}
    assert "five and more" in text(yard)
    assert (yard.git.path / "a").read_text() == lines(l5="five and more")


def test_driver_that_somebody_else_configured_counts(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes(yard, "a merge=theirs\n")
    yard.git.ok("config", "--file", tmp_path / "mine", "merge.theirs.driver", "cp %B %A")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "mine"))
    assert two(yard, lines(l5="x"), lines(l5="y")) == {"one": "landed", "two": "landed"}
    assert text(yard) == lines(l5="y")[:-1]


@pytest.mark.parametrize("strategy", ["merge", "cherry-pick"])
def test_lines_of_both_sides_by_union(yard: Yard, strategy: str) -> None:
    attributes(yard, "a merge=union\n")
    yard.task("one", a=lines(l5="five"))
    yard.task("two", a=lines(l5="fünf"))
    assert set(yard.integrate(strategy=strategy).values()) == {"landed"}
    assert {"five", "fünf"} < set(text(yard).splitlines())


@pytest.mark.parametrize("attribute", ["-merge", "merge=binary"])
def test_no_merge_by_lines_where_an_attribute_says_so(yard: Yard, attribute: str) -> None:
    attributes(yard, f"a {attribute}\n")
    assert two(yard, lines(l5="x"), lines(l25="y")) == {"one": "landed", "two": "conflict"}


def test_the_target_says_how_and_not_the_branch(yard: Yard) -> None:
    attributes(yard, "b merge=union\n")
    yard.task("one", a=lines(l5="x"))
    yard.task("two", **{"a": lines(l5="y"), ".gitattributes": "a merge=union\n"})
    assert yard.integrate() == {"one": "landed", "two": "conflict"}


def test_no_commit_that_has_not_landed_says_what_runs(yard: Yard, tmp_path: Path) -> None:
    """A branch changes the script of a driver first, and has it called by its next commit."""
    attributes(yard, "a merge=longer\n", longer="./longer %O %A %B %P")
    first = yard.branch("aside", longer=f"#!/bin/sh\ntouch {tmp_path}/it-ran\n")
    yard.task("one", a=lines(l5="five"))
    yard.approve("two", yard.branch("w/two", first, a=lines(l5="five and more")))
    assert set(yard.integrate(strategy="cherry-pick").values()) == {"landed"}
    assert "five and more" in text(yard)
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize(
    ("driver", "outcome", "words"),
    [
        ("false", "conflict", "it conflicts with the target"),
        ("no-such-program %A", "conflict", "it conflicts with the target"),
        ("exit 128", "conflict", "it conflicts with the target"),
    ],
)
def test_driver_that_fails_sends_its_entry_back_and_lands_others(
    yard: Yard, driver: str, outcome: str, words: str
) -> None:
    attributes(yard, "a merge=own\n", own=driver)
    yard.task("three", b="three\n")
    assert two(yard, lines(l5="x"), lines(l5="y")) == {
        "one": "landed",
        "two": outcome,
        "three": "landed",
    }
    assert any(words in result.reason for result in yard.results)


@pytest.mark.parametrize("driver", ["exit 200", "kill -9 $$"])
def test_driver_that_breaks_sends_its_entry_back(yard: Yard, driver: str) -> None:
    """Some versions of git take it for a conflict, and others for an error."""
    attributes(yard, "a merge=own\n", own=driver)
    outcomes = two(yard, lines(l5="x"), lines(l5="y"))
    assert outcomes["one"] == "landed"
    assert outcomes["two"] in ("conflict", "rejected")


def test_what_a_driver_makes_is_the_users_word_for_its_files_alone(yard: Yard) -> None:
    """Others than those that a driver merges still change as they were approved."""
    attributes(yard, "a merge=own\n", own="seq 100 > %A")
    assert two(yard, lines(l5="x"), lines(l5="y")) == {"one": "landed", "two": "landed"}
    assert text(yard).splitlines()[-1] == "100"


def test_driver_runs_where_the_target_can_not_be_checked_out(yard: Yard) -> None:
    """A filter that fails keeps no driver from its work that reads no other file."""
    attributes(yard, "a merge=theirs\nb filter=gone\n", theirs="cp %B %A")
    for name, text in (("one", "x"), ("two", "y")):
        yard.task(name, a=lines(l5=text))
    yard.git.ok("config", "filter.gone.smudge", "false")
    yard.git.ok("config", "filter.gone.clean", "cat")
    yard.git.ok("config", "filter.gone.required", "true")
    assert yard.integrate() == {"one": "landed", "two": "landed"}


def test_git_that_a_driver_runs_leaves_the_index_alone(yard: Yard) -> None:
    attributes(yard, "a merge=own\n", own="echo x > new; git add new; cp %B %A")
    two(yard, lines(l5="x"), lines(l5="y"))
    assert yard.git.ok("status", "--porcelain") == ""


def test_dry_run_runs_no_driver_and_says_what_is_not_known(
    yard: Yard, run_bus: RunBus, tmp_path: Path
) -> None:
    attributes(yard, "a merge=own\nb merge=union\n", own=f"touch {tmp_path}/it-ran")
    yard.task("one", a=lines(l5="x"), b="one\n")
    yard.task("two", a=lines(l5="y"))
    yard.task("three", b="three\n")
    done = run_bus("integrate", "--dry-run", "--dir", yard.bus.directory, cwd=yard.git.path)
    assert [line.split("  ")[0] for line in done.out.splitlines()] == [
        *("one: would land", "two: not known", "three: would land")
    ]
    assert done.code == 0
    assert not (tmp_path / "it-ran").exists()
