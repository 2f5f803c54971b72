"""Git commands that sweep, by what lies in the bus directory: nothing that lives goes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..sizes import case
from .clones import Clone

pytestmark = pytest.mark.slow  # starts many processes

#: What a person may have written who wants parts of a bus in git.
PARTS = """\
# Written by ackbus: the bus itself stays out of git; bus.jsonl and blobs/ may go in.
bus.db
bus.db-wal
bus.db-shm
bus.db.new*
bus.db.v*
bus*.json*.new
doorbell
*.lock
blobs/.tmp-*
workers/
search.db*
archive/
"""

LARGE = "x" * 20_000


def ignoring(clone: Clone) -> Path:
    return clone.bus_dir / ".gitignore"


def fresh(clone: Clone) -> None:
    """Only `bus init` was run."""


def set_up(clone: Clone) -> None:
    clone.bus("setup", "git")


def committed(clone: Clone) -> None:
    clone.bus("setup", "git")
    clone.bus("export", "--stage")
    clone.git("commit", "-qm", "the bus")
    clone.bus("publish", "large", "y" * 20_000, "--from", "ann")
    clone.export()


SWEEPS: dict[str, list[tuple[str, ...]]] = {
    "clean": [("clean", "-fd")],
    "clean twice": [("clean", "-fdq"), ("clean", "-ffdq")],
    "stash": [("stash", "-u")],
    "stash, pop": [("stash", "-u"), ("stash", "pop")],
    "stash, clean": [("stash", "-u"), ("clean", "-ffd")],
    "add, reset": [("add", "-A"), ("reset", "-q", "--hard")],
    "add, commit, back": [("add", "-A"), ("commit", "-qm", "all"), ("reset", "-q", "--hard", "@~")],
    "older": [("checkout", "-qf", "older"), ("clean", "-fd"), ("checkout", "-qf", "-")],
    "older, stash": [("checkout", "-qf", "older"), ("stash", "-u"), ("checkout", "-qf", "-")],
    "switch": [
        ("switch", "-q", "--discard-changes", "older"),
        ("clean", "-fd"),
        ("switch", "-q", "-"),
    ],
    "rm": [("rm", "-rfq", "--ignore-unmatch", "README"), ("clean", "-fd")],
    "checkout": [("checkout", "-q", "--", ".")],
}


@pytest.mark.parametrize(
    ("state", "sweep"),
    [
        case(state, sweep, id=f"{state.__name__}-{sweep}", by_day=(number + turn) % 3 == 0)
        for number, sweep in enumerate(SWEEPS)
        for turn, state in enumerate((fresh, set_up, committed))
    ],
)
def test_sweeps_take_nothing_that_lives(
    repository: Clone, state: Callable[[Clone], None], sweep: str
) -> None:
    (repository.path / "README").write_text("x")
    repository.git("add", "README")
    repository.git("commit", "-qm", "first")
    repository.git("branch", "older")
    repository.bus("publish", "large", LARGE, "--from", "ann", "--id", "one")
    (repository.bus_dir / "crew.json").write_text("{}")
    (repository.bus_dir / "logs").mkdir()
    (repository.bus_dir / "logs" / "worker.log").write_text("said")
    state(repository)
    before = {path.name for path in repository.bus_dir.rglob("*") if path.is_file()}
    derived = {".gitignore", ".gitattributes", "bus.jsonl"}
    for command in SWEEPS[sweep]:
        repository.try_git(*command)
    after = {path.name for path in repository.bus_dir.rglob("*") if path.is_file()}
    assert before - derived <= after
    assert repository.bus("read", "--type", "large", "--json").count(LARGE) == 1
    repository.bus("publish", "note", "after", "--from", "ann")
    assert "*" in ignoring(repository).read_text().splitlines()
    repository.git("add", "-A")
    tracked = {Path(name).name for name in repository.git("ls-files").splitlines()}
    assert tracked <= {"README", *derived, *(name for name in before if name.startswith("sha256-"))}
    assert "crew.json" not in tracked


def test_writer_restores_a_missing_ignore_file_and_a_reader_does_not(repository: Clone) -> None:
    repository.publish("one")
    whole = ignoring(repository).read_text()
    ignoring(repository).unlink()
    repository.bus("read")
    repository.bus("doctor")
    assert not ignoring(repository).exists()
    repository.publish("two")
    assert ignoring(repository).read_text() == whole
    ignoring(repository).unlink()
    repository.bus("init")
    assert ignoring(repository).read_text() == whole


def test_doctor_says_what_to_add_to_an_edited_ignore_file(repository: Clone) -> None:
    path = ignoring(repository)
    assert "warn" not in repository.bus("doctor")
    path.write_text(PARTS + "mine\n")
    told = next(line for line in repository.try_bus("doctor").out.splitlines() if " git: " in line)
    assert told.startswith("warn  git: it would take crew.json, logs/worker.log, blobs/sha256-")
    assert "'*', '!/.gitignore', '!/.gitattributes', '!/bus.jsonl'" in told
    path.write_text("*\n!/.gitignore\n!/.gitattributes\n!/bus.jsonl\n" + PARTS + "mine\n")
    assert "warn" not in repository.bus("doctor")


def test_setup_puts_what_an_edited_ignore_file_lacks_before_it(repository: Clone) -> None:
    ignoring(repository).write_text("!keep.me\n")
    repository.bus("setup", "git")
    lines = ignoring(repository).read_text().splitlines()
    assert lines[:2] == ["*", "!keep.me"]
    assert lines[-3:] == ["!/.gitignore", "!/.gitattributes", "!/bus.jsonl"]


@pytest.mark.parametrize("name", [".", "shared [a] #1"])
def test_bus_among_files_of_a_project_hides_none_of_them(repository: Clone, name: str) -> None:
    folder = repository.path / name
    folder.mkdir(exist_ok=True)
    (folder / "code.py").write_text("x = 1\n")
    repository.bus("init", "--dir", name)
    repository.bus("publish", "large", LARGE, "--from", "ann", "--dir", name)
    repository.git("add", "-A")
    tracked = {Path(line).name for line in repository.git("ls-files", "-z").split("\0") if line}
    assert tracked == {"code.py"}
    repository.git("clean", "-ffd")
    assert repository.bus("read", "--json", "--dir", name).count(LARGE) == 1


def test_stage_takes_the_blobs_that_lines_name_and_no_others(repository: Clone) -> None:
    repository.bus("setup", "git")
    (repository.path / "loose").write_text("never published")
    repository.bus("blob", "put", "loose")
    repository.publish(LARGE)
    told = repository.bus("export", "--stage")
    assert told.endswith("and staged it with 1 blob\n")
    names = {Path(line).name for line in repository.git("ls-files").splitlines()}
    (ref,) = {name for name in names if name.startswith("sha256-")}
    assert names == {".gitignore", ".gitattributes", "bus.jsonl", ref}
    assert repository.try_bus("export", "--stage", "--follow").code == 2
