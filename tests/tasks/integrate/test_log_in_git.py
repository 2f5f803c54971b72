"""A bus whose log is in git, an exporter that runs, and landings: none waits for another."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackbus import Bus, Exporter
from ackbus.git.bus_files import DriverSetup, stage
from ackbus.git.target_refs import LocalTarget, TargetBusy

from ...agent_programs import BUS
from .conftest import Yard, lines, repository

pytestmark = pytest.mark.slow  # starts many processes


def jsonl(yard: Yard) -> Path:
    return Path(yard.bus.layout.jsonl)


def ids(text: str) -> set[str]:
    return {json.loads(line)["id"] for line in text.splitlines()}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Yard]:
    """The log is committed on main, with the drivers; the bus is in the work tree."""
    git = repository(tmp_path / "repo")
    with Bus.init(git.path / ".worker-state") as opened:
        yield _committed_log(Yard(git, opened))


def _committed_log(yard: Yard) -> Yard:
    DriverSetup(yard.bus.layout, BUS).install()
    yard.bus.publish("note", "x" * 20_000, from_agent="ann")
    Exporter(yard.bus).export_once()
    stage(yard.bus.layout)
    yard.git.ok("commit", "--quiet", "-m", "the log")
    return yard


def test_landing_goes_on_while_an_exporter_follows(shared: Yard) -> None:
    """`bus integrate` publishes itself, and that changes the committed file."""
    with Exporter(shared.bus):
        for number in range(3):
            shared.task(f"t{number}", a=lines(**{f"l{number + 5}": f"v{number}"}))
            assert shared.integrate() == {f"t{number}": "landed"}
    assert ids(jsonl(shared).read_text()) == {message.id for message in shared.bus.read()}
    assert "v2" in (shared.git.path / "a").read_text()


def committed(yard: Yard, make: Callable[[str], str], *, file: str = "bus.jsonl") -> None:
    """A task's commit that changes a file of the bus."""
    path = f".worker-state/{file}"
    before = yard.git("show", f"main:{path}")
    yard.task("one", **{path: make(before.out if before.code == 0 else "")})


FOREIGN = '{"id":"foreign","ts":"2026-01-10T14:00:00.000Z","from":"zoe","type":"t","payload":1}\n'


def test_lines_that_a_commit_brings_come_beside_those_of_the_bus(shared: Yard) -> None:
    committed(shared, lambda before: FOREIGN + before)
    before = {message.id for message in shared.bus.read()}
    Exporter(shared.bus).export_once()
    assert shared.integrate() == {"one": "landed"}
    assert before | {"foreign"} <= ids(jsonl(shared).read_text())
    assert "foreign" in shared.git.ok("show", "main:.worker-state/bus.jsonl")


def test_lines_of_two_branches_are_united(shared: Yard) -> None:
    """As the forecast says: by the driver that `.worker-state/.gitattributes` names."""
    path = ".worker-state/bus.jsonl"
    before = shared.git.ok("show", f"main:{path}")
    for name in ("one", "two"):
        shared.task(name, **{path: f"{before}\n{FOREIGN.replace('foreign', name)}"})
    assert shared.integrate() == {"one": "landed", "two": "landed"}
    assert {"one", "two"} < ids(shared.git.ok("show", f"main:{path}"))


def test_lines_that_the_bus_has_leave_its_file_as_it_is(shared: Yard) -> None:
    shared.bus.publish("note", "two", from_agent="ann")
    Exporter(shared.bus).export_once()
    stage(shared.bus.layout)
    newer = shared.git.ok("show", ":.worker-state/bus.jsonl")
    committed(shared, lambda before: f"{newer}\n")
    Exporter(shared.bus).export_once()
    before = jsonl(shared).read_bytes()
    stamp = jsonl(shared).stat()
    with Exporter(shared.bus):
        assert shared.integrate() == {"one": "landed"}
    assert "two" in shared.git.ok("show", "main:.worker-state/bus.jsonl")
    assert jsonl(shared).read_bytes().startswith(before)
    assert jsonl(shared).stat().st_ino == stamp.st_ino


def test_blob_or_log_that_a_commit_takes_out_stays_in_the_bus(shared: Yard) -> None:
    (ref,) = shared.bus.blobs
    aside = shared.git.path.parent / "other"
    shared.git.ok("worktree", "add", "--quiet", "-b", "gone", aside, "main")
    shared.git.ok("-C", aside, "rm", "-rq", "--", ".worker-state/blobs", ".worker-state/bus.jsonl")
    shared.git.ok("-C", aside, "commit", "-qm", "out")
    shared.git.ok("worktree", "remove", "--force", aside)
    before = jsonl(shared).read_bytes()
    LocalTarget(shared.place, "main").move(shared.git.ok("rev-parse", "gone"), shared.main, "out")
    assert len(shared.bus.blobs.read(ref)) > 20_000
    assert jsonl(shared).read_bytes() == before


def test_staged_log_and_a_dirty_blob_keep_no_landing_out(shared: Yard) -> None:
    shared.bus.publish("note", "y" * 20_000, from_agent="ann")
    Exporter(shared.bus).export_once()
    stage(shared.bus.layout)
    shared.task("one", a=lines(l5="five"))
    assert shared.integrate() == {"one": "landed"}
    assert len(list(shared.bus.blobs)) == 2


def test_failed_landing_brings_the_files_of_the_bus_back(shared: Yard) -> None:
    committed(shared, lambda before: FOREIGN + before)
    candidate = shared.git.ok("rev-parse", shared.tasks.get("one").branch)
    Exporter(shared.bus).export_once()
    before = jsonl(shared).read_bytes()
    shared.git.ok("rm", "-q", "--cached", "b")
    with pytest.raises(TargetBusy):
        LocalTarget(shared.place, "main").move(candidate, shared.main, "no")
    assert jsonl(shared).read_bytes() == before
    assert not list(Path(shared.bus.layout.directory).glob("*.aside"))
