"""File modes: whatever the umask, a bus and its copies are for their user alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus, Exporter
from ackbus.bus.doorbell import listen, ring
from ackbus.bus.signing import Keyring
from ackbus.doctor.checks.directory import checks_of_place
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.directory.layout import Layout

from ..conftest import RunBus


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    """The modes of a directory, and of all that is in it."""
    return {
        str(path.relative_to(directory.parent)): f"{stat.S_IMODE(path.lstat().st_mode):04o}"
        for path in (directory, *directory.rglob("*"))
    }


def use_everything(bus: Bus, keyring: Keyring, backup: Path) -> None:
    """Makes every kind of file that a bus can have."""
    keyring.create("alice")
    for number in range(60):
        bus.publish("t", "x" * (5000 if number == 3 else 200), from_agent="alice")
    exporter = Exporter(bus)
    exporter.export_once()
    exporter.rotate(4096)
    with Archiver(bus) as archiver:
        archiver.archive(10)
    bus.search("x*")
    with listen(bus):
        ring(bus)
    back_up(bus, backup)


def test_every_file_is_for_its_user_alone(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN: directories 0700, files 0600."""
    keys = tmp_path / "keys"
    monkeypatch.setenv("BUS_KEYS_DIR", str(keys))
    directory = tmp_path / ".worker-state"
    with Bus.init(directory) as bus:
        use_everything(bus, Keyring(), tmp_path / "backup")
        found = modes(directory) | modes(tmp_path / "backup") | modes(keys)
    names = {Path(name).name for name in found}
    assert names >= {
        *("bus.db", "bus.db-wal", "bus.db-shm", "bus.jsonl", "bus-000001.jsonl", "bus.index.json"),
        *("000000000001.jsonl.zst", "search.db", "doorbell", "write.lock", "export.lock"),
        *("archive.lock", "search.lock", ".gitignore", "backup.json", "alice.key"),
    }
    assert any(name.startswith("sha256-") for name in names)
    folders = {"blobs", "archive", ".worker-state", "backup", "keys"}
    wrong = {
        name: mode
        for name, mode in found.items()
        if mode != ("0700" if Path(name).name in folders else "0600")
    }
    assert wrong == {}


def test_copy_before_an_upgrade_is_for_its_user_alone(umask: int, tmp_path: Path) -> None:
    from ackbus.schema.sqlite.upgrade import upgrade

    from ..migration.made_up import OLDER, make_older, upgradable

    directory = make_older(tmp_path / "old")
    with upgradable(tmp_path / "migrations"):
        upgrade(directory)
    assert modes(directory)[f"old/bus.db.v{OLDER}"] == "0600"


@pytest.mark.parametrize(
    ("name", "mode", "is_named"),
    [
        ("", 0o755, True),
        ("bus.db", 0o640, True),
        ("bus.db-wal", 0o604, True),
        ("doorbell", 0o602, True),
        ("write.lock", 0o660, True),
        ("bus.jsonl", 0o644, False),  # as git brings it, in a directory that keeps others out
        ("bus.jsonl", 0o664, True),
        ("blobs", 0o755, False),
        ("blobs", 0o777, True),
        ("archive", 0o755, True),
    ],
)
def test_doctor_names_what_others_can_read_or_write(
    name: str, mode: int, is_named: bool, bus: Bus
) -> None:
    bus.publish("t", from_agent="a")
    ring(bus)
    Exporter(bus).export_once()
    bus.publish("note", from_agent="bob")
    with Archiver(bus) as archiver:
        archiver.archive(1)
    path = Path(bus.layout.directory, name)
    path.chmod(mode)
    finding = checks_of_place(Layout(bus.layout.directory))["modes"]()
    assert (finding.state == "warn") is is_named
    assert (f"{path.name} {mode:04o}" in finding.text) is is_named


def test_command_names_it_too(bus_dir: Path, run_bus: RunBus) -> None:
    (bus_dir / "write.lock").chmod(0o666)
    done = run_bus("doctor")
    assert (
        "warn  modes: others may read or write what is meant for you: write.lock 0666" in done.out
    )
