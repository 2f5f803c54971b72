"""Git in a clone whose configured program is not there any more: nothing stops, nothing is lost."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from ackbus.git.bus_files import DriverSetup
from ackbus.schema.directory.layout import Layout

from .clones import Clone
from .git import Git

pytestmark = pytest.mark.slow  # starts many processes


def configure(clone: Clone, program: str) -> None:
    """Set the drivers up as an installation elsewhere did."""
    DriverSetup(Layout(clone.bus_dir), program).install()


@pytest.fixture
def shared(repository: Clone) -> Clone:
    repository.bus("setup", "git")
    repository.publish("one")
    repository.commit()
    repository.git("branch", "other")
    return repository


def without_bus(clone: Clone, tmp_path: Path) -> Mapping[str, str]:
    """Variables whose PATH has git and the shell, and no bus."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("git", "sh", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return {**clone.env, "PATH": str(folder)}


def broken(tmp_path: Path) -> Path:
    """A program that is there, and whose interpreter is not."""
    path = tmp_path / "it's 100% broken" / "bus"
    path.parent.mkdir()
    path.write_text("#!/nowhere/python\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("kind", ["gone", "broken"])
def test_git_goes_on_without_the_program(shared: Clone, tmp_path: Path, kind: str) -> None:
    program = "/nowhere/bus" if kind == "gone" else str(broken(tmp_path))
    configure(shared, program)
    shared.publish("two")
    shared.export()
    git = Git(shared.path, without_bus(shared, tmp_path))
    before = shared.in_git()
    for command in (["status"], ["diff"], ["add", "-A"], ["log", "-p", "-1"]):
        git.ok(*command)
    (shared.path / "f").write_text("x")
    git.ok("add", "-A")
    git.ok("commit", "-qm", "work")
    git.ok("checkout", "-q", "other")
    git.ok("checkout", "-q", "-")
    git.ok("merge", "-q", "other")
    assert shared.in_git() == before
    shared.publish("three")
    shared.bus("setup", "git")
    shared.commit()
    assert len(shared.in_git()) == 3


@pytest.mark.parametrize("kind", ["gone", "broken"])
def test_program_on_the_path_takes_over(shared: Clone, tmp_path: Path, kind: str) -> None:
    configure(shared, "/nowhere/bus" if kind == "gone" else str(broken(tmp_path)))
    shared.publish("two")
    shared.commit()
    assert len(shared.in_git()) == 2
    assert "note  two" in shared.git("show")


def test_without_a_program_a_first_add_is_refused(repository: Clone, tmp_path: Path) -> None:
    """Git has no version of it yet, and the file as it is must not get in."""
    configure(repository, "/nowhere/bus")
    repository.publish("one")
    repository.export()
    git = Git(repository.path, without_bus(repository, tmp_path))
    assert git("add", "-A").code != 0
    assert ".worker-state/bus.jsonl" not in git.ok("ls-files")


def test_failure_of_the_program_itself_still_keeps_git_back(shared: Clone) -> None:
    shared.jsonl.write_text("<<<<<<< ours\n")
    assert shared.try_git("add", ".worker-state/bus.jsonl").code != 0


def test_merge_without_a_program_leaves_markers(shared: Clone, tmp_path: Path) -> None:
    shared.publish("two")
    shared.commit()
    two = shared.in_git()
    shared.git("checkout", "-q", "other")
    shared.bus("export", "--rebuild")
    line = '{"id":"x","ts":"2099-01-10T14:00:00.000Z","from":"a","type":"t","payload":1}\n'
    shared.jsonl.write_text(f"{two[0]}\n{line}")
    shared.git("add", "-A")
    shared.git("commit", "-qm", "other")
    configure(shared, "/nowhere/bus")
    git = Git(shared.path, without_bus(shared, tmp_path))
    assert git("merge", "main").code != 0
    text = shared.jsonl.read_text()
    assert "<<<<<<<" in text
    assert line in text
    assert two[1] in text
