"""bus doctor --repair: what it says, when it refuses, and that a dry run leaves all as it is."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter
from ackbus.cli.commands.doctor import watched
from ackbus.export.archive_writer import Archiver
from ackbus.schema.findings import Mended
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from ..programs import running_program

HOLD = """
import sys
from ackbus import Bus
bus = Bus.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def damaged(bus_dir: Path) -> Path:
    """A bus whose file is garbage in the middle, with its export; nobody has it open."""
    with closing(Bus.open(bus_dir)) as bus:
        bus.publish_many([Draft("note", f"{n} " + "x" * 900, from_agent="ann") for n in range(300)])
        Exporter(bus).export_once()
        file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(4096 * 4)
        file.write(os.urandom(4096 * 30))
    return bus_dir


def everything(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    return {str(path): path.read_bytes() for path in files if not path.name.endswith("-shm")}


@pytest.mark.slow
def test_what_was_saved_is_told_line_by_line(damaged: Path, run_bus: RunBus) -> None:
    done = run_bus("doctor", "--repair")
    assert done.err == ""
    lines = done.out.splitlines()
    assert all(line.startswith(("saved  ", "LOST   ")) for line in lines)
    assert any(line.startswith("saved  messages: 300 saved") for line in lines)
    assert any("the damaged one is bus.db.damaged-" in line for line in lines)
    assert done.code == (1 if "LOST" in done.out else 0)
    assert run_bus("doctor", "--full").code == 0
    assert run_bus("doctor", "--repair").out == "nothing is damaged; nothing was changed\n"


@pytest.mark.slow
def test_a_dry_run_changes_nothing(damaged: Path, run_bus: RunBus) -> None:
    (damaged / "archive.lock").unlink(missing_ok=True)
    (damaged / "blobs").rmdir()
    before, names = everything(damaged), set(damaged.rglob("*"))
    told = run_bus("doctor", "--repair", "--dry-run", "--json")
    assert next(json.loads(line)["part"] for line in told.out.splitlines()) == "messages"
    assert "leave --dry-run out" in told.err
    assert everything(damaged) == before
    assert {path for path in damaged.rglob("*") if "-shm" not in path.name} == {
        path for path in names if "-shm" not in path.name
    }


@pytest.mark.slow
def test_a_bus_that_somebody_has_open_is_left_alone(damaged: Path, run_bus: RunBus) -> None:
    """Pitfall 9: they would go on in a file without a name."""
    if not os.path.exists("/proc/locks"):
        pytest.skip("this system does not tell who has a file open")
    with running_program(HOLD, damaged) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = everything(damaged)
        done = run_bus("doctor", "--repair")
        assert done.code == 3
        assert f"process {process.pid} (" in done.err
        assert "has the bus open; end all that use it" in done.err
        assert everything(damaged) == before
    assert run_bus("doctor", "--repair").code in (0, 1)
    assert run_bus("doctor", "--full").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", ["file", "log"])
def test_a_repair_that_died_is_finished_by_the_next(
    damaged: Path, run_bus: RunBus, step: str
) -> None:
    """Killed between the two renames: nobody can open the bus, and nothing is lost."""
    run_bus("doctor", "--repair")
    (aside,) = damaged.glob("bus.db.damaged-*[0-9]")
    (damaged / "bus.db").rename(str(aside).replace("damaged", "repaired"))
    (damaged / "bus.db-wal").write_bytes(b"of the damaged file")
    if step == "log":
        (damaged / "bus.db-wal").rename(f"{aside}-wal")
    assert run_bus("publish", "note", "--from", "ann", "--dir", damaged).code == 1
    assert "of a repair that died" in run_bus("doctor", "--repair", "--dry-run").out
    assert not (damaged / "bus.db").exists()
    assert "of a repair that died" in run_bus("doctor", "--repair").out
    assert run_bus("doctor", "--full").code == 0
    assert Path(f"{aside}-wal").read_bytes() == b"of the damaged file"
    with closing(Bus.open(damaged)) as bus:
        assert bus.log.count(0, 300) == 300


def test_options_that_need_repair(bus_dir: Path, run_bus: RunBus) -> None:
    done = run_bus("doctor", "--dry-run")
    assert (done.code, done.err) == (2, "bus: --from and --dry-run belong to --repair\n")
    assert run_bus("doctor", "--repair", "--dir", bus_dir.parent / "nowhere").code == 1


def test_a_backup_that_is_none_is_refused(damaged: Path, run_bus: RunBus, tmp_path: Path) -> None:
    done = run_bus("doctor", "--repair", "--from", tmp_path)
    assert (done.code, "no bus in" in done.err) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("left", ["nothing", "an empty file", "the log"])
def test_a_bus_without_its_file_is_not_made_anew_over_its_archive(
    bus_dir: Path, run_bus: RunBus, left: str
) -> None:
    """Issue 6, item 4: whoever asks is sent to the repair, which brings all back."""
    with closing(Bus.open(bus_dir)) as bus:
        bus.publish_many([Draft("note", str(n), from_agent="ann") for n in range(40)])
        Exporter(bus).export_once()
        with Archiver(bus) as archiver:
            archiver.archive(20)
    for path in bus_dir.glob("bus.db*"):
        path.unlink()
    if left == "an empty file":
        (bus_dir / "bus.db").touch()
    if left == "the log":
        (bus_dir / "bus.db-wal").write_bytes(b"x")
    for command in (["init"], ["doctor"], ["publish", "note", "--from", "ann"]):
        done = run_bus(*command)
        assert done.code == 1
        assert "put bus.db back, or 'bus doctor --repair'" in done.out + done.err
    run_bus("doctor", "--repair")
    with closing(Bus.open(bus_dir)) as bus:
        assert [message.payload for message in bus.log.read(upto_seq=40)] == [
            str(n) for n in range(40)
        ]
    assert run_bus("doctor", "--full").code == 0


def test_what_git_brings_without_a_file_is_a_new_bus(bus_dir: Path, run_bus: RunBus) -> None:
    with closing(Bus.open(bus_dir)) as bus:
        bus.publish("note", "x" * 6000, from_agent="ann")
        Exporter(bus).export_once()
    for path in bus_dir.glob("bus.db*"):
        path.unlink()
    assert run_bus("init").code == 0


class Screen(io.StringIO):
    """A terminal that somebody watches."""

    def isatty(self) -> bool:
        return True


def test_a_long_repair_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part may take minutes, and nobody knows how long."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Screen())

    def parts() -> Iterator[Mended]:
        wait_until(lambda: "repairing" in screen.getvalue())
        yield Mended("file", "is whole")

    assert [each.part for each in watched(parts())] == ["file"]
