"""The fixtures of this folder: processes that come to harm, and a disk that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..concurrency.actors import StartActor, actor_starter

PAGE = 4096
DISK_KIB = 4096


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of victims.py in a process of its own."""
    yield from actor_starter(Path(__file__).with_name("victims.py"), tmp_path)


@pytest.fixture
def start_user(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of users.py in a process of its own."""
    yield from actor_starter(Path(__file__).with_name("users.py"), tmp_path)


@dataclass(frozen=True)
class SmallDisk:
    """A filesystem of a few MiB of its own, and a file on it that takes up room."""

    path: Path

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def leave(self, pages: int) -> None:
        """Leave room for so many pages of 4 KiB."""
        fd = os.open(self._ballast, os.O_RDWR | os.O_CREAT)
        try:
            size = os.fstat(fd).st_blocks * 512
            size += (os.fstatvfs(fd).f_bavail - pages) * PAGE
            os.ftruncate(fd, min(size, os.fstat(fd).st_size))
            if size:
                os.posix_fallocate(fd, 0, size)
        finally:
            os.close(fd)
        assert os.statvfs(self.path).f_bavail == pages

    def fill(self) -> None:
        """Leave no room, though others write and remove at the same time."""
        with self._ballast.open("ab") as ballast, suppress(OSError):
            while True:
                os.write(ballast.fileno(), bytes(PAGE))

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A filesystem of 4 MiB; only root can mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, DISK_KIB) as small:
        yield small


@contextmanager
def mounted(disk: Path, kib: int) -> Iterator[SmallDisk]:
    """Mount a filesystem of its own on a folder; skip the test where that is forbidden."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode != 0:
        pytest.skip(f"can't mount a small disk here: {done.stderr.strip()}")
    try:
        yield SmallDisk(disk)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
