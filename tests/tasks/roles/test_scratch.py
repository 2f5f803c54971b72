"""The scratch folder of a worker, in a folder where others may make any name before it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.tasks.roles.worker_name import WorkerName


@pytest.fixture
def everybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files."""
    folder = tmp_path / "everybody's"
    folder.mkdir(mode=0o700)
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_no_name_is_known_before(bus: Bus, everybodys: Path) -> None:
    """A folder, a file or a pipe stands in the place of the last one."""
    with WorkerName(bus, "w") as name:
        name.acquire()
        last = Path(name.fresh_scratch())
        assert stat.S_IMODE(last.stat().st_mode) == 0o700
        name.clear()
        for plant in (last.mkdir, last.touch, lambda: os.mkfifo(last)):
            plant()
            again = Path(name.fresh_scratch())
            assert again != last
            assert list(again.iterdir()) == []
            if last.exists():
                last.unlink()
            name.clear()
    assert list(everybodys.iterdir()) == []


def test_what_a_killed_bearer_left_goes_and_no_link_is_followed(
    bus: Bus, everybodys: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    left = Path(WorkerName(bus, "w").fresh_scratch())  # and never cleared
    (left / "prompt.md").touch()
    link = everybodys / f"{left.name}x"
    link.symlink_to(elsewhere)
    another = Path(WorkerName(bus, "v").fresh_scratch())
    with WorkerName(bus, "w") as name:
        name.acquire()
        own = Path(name.fresh_scratch())
        assert set(everybodys.iterdir()) == {own, link, another}
    assert set(everybodys.iterdir()) == {link, another}
    assert (elsewhere / "kept").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes folders of another user")
def test_a_folder_of_another_user_stays_and_stops_nothing(bus: Bus, everybodys: Path) -> None:
    with WorkerName(bus, "w") as name:
        name.acquire()
        theirs = Path(name.fresh_scratch())
        os.chown(theirs, 65534, 65534)
        assert Path(name.fresh_scratch()) != theirs
    assert list(everybodys.iterdir()) == [theirs]
