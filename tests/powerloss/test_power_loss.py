"""No power loss takes what was promised. Some points are cut here, all in `make powerloss`."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ..sizes import size
from .disk import Disk, Found

pytestmark = pytest.mark.slow

#: Points of each workload.
POINTS = size(sample=1, whole=5)

RUN = Path(__file__).with_name("run.py")


def run(*args: object) -> tuple[int, list[dict[str, Any]]]:
    """Runs the runner to its end; returns its exit code and its reports."""
    done = subprocess.run(
        [sys.executable, "-W", "error", RUN, "--json", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["full", pytest.param("normal", marks=pytest.mark.nightly)])
def test_power_loss_takes_a_bus_back_to_an_earlier_moment_at_most(durability: str) -> None:
    """X-40, promises 1 to 9: `full` loses nothing that was told, `normal` only the newest."""
    code, reports = run("--durability", durability, "--sample", POINTS, "--seed", 6)
    assert [report["bad"] for report in reports if report["bad"]] == []
    assert code == 0
    assert reports[-1]["states"] > 40 * POINTS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("lie", "workload", "durability"),
    [
        ("/bus.db-wal", "publish", "full"),
        pytest.param("/blobs", "publish with blob", "full", marks=pytest.mark.nightly),
        pytest.param("/bus.db", "checkpoint", "normal", marks=pytest.mark.nightly),
        pytest.param("/archive", "archive", "normal", marks=pytest.mark.nightly),
    ],
)
def test_disk_whose_syncs_are_lies_is_found_out(lie: str, workload: str, durability: str) -> None:
    """The examination can find errors: else the tests above would show nothing."""
    code, reports = run(
        "--durability", durability, "--workload", workload, "--sample", 20, "--unsynced", lie
    )
    assert code == 1
    assert reports[0]["bad"]


# The model of the disk.


def found(disk: Disk, way: str) -> dict[str, bytes | None]:
    state = disk.found(way, Random(1))
    return {
        path: there.content if isinstance(there, Found) else None for path, there in state.items()
    }


def test_synced_bytes_under_an_unsynced_name_are_lost_with_the_name() -> None:
    disk = Disk()
    disk.create("a", 1)
    disk.write(1, 0, b"kept", 0)
    disk.sync(1)
    assert found(disk, "all lost") == {}
    disk.sync_folder("")
    disk.write(1, 4, b" lost", 0)
    assert found(disk, "all lost") == {"a": b"kept"}
    assert found(disk, "nothing lost") == {"a": b"kept lost"}


def test_unsynced_rename_gives_the_old_file_or_the_new_one() -> None:
    disk = Disk()
    for number, name in enumerate(("old", "new"), 1):
        disk.create(name, number)
        disk.write(number, 0, name.encode(), 0)
    disk.sync_all()
    disk.rename("new", "old")
    assert found(disk, "names lost") == {"old": b"old", "new": b"new"}
    assert found(disk, "nothing lost") == {"old": b"new"}


def test_torn_write_keeps_or_loses_whole_sectors() -> None:
    disk = Disk()
    disk.create("a", 1)
    disk.sync_all()
    disk.write(1, 100, b"x" * 2000, 0)
    chance, sizes = Random(1), set()
    for _ in range(200):
        there = disk.found("shuffled", chance)["a"]
        assert there is not None
        content = there.content
        kept = [content[begin : begin + 512].strip(b"\0") for begin in range(0, len(content), 512)]
        whole = [412, 512, 512, 512, 52]
        assert all(len(part) in (0, whole[sector]) for sector, part in enumerate(kept))
        sizes.add(len(content))
    assert {0, 512, 2100} <= sizes


def test_changes_of_names_are_lost_from_the_newest_on() -> None:
    disk = Disk()
    for number in range(1, 5):
        disk.create(f"f{number}", number)
    chance = Random(1)
    seen = {tuple(disk.found("shuffled, names too", chance)) for _ in range(100)}
    assert seen == {("f1", "f2", "f3", "f4")[:count] for count in range(5)}
