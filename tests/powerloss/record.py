"""Records one workload, in a process of its own: `python record.py WORKLOAD DURABILITY FILE`.

What follows are the beginnings of paths in the bus directory of which syncs are to be lies.
"""

from __future__ import annotations

import builtins
import io
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorder import SHARED_MEMORY, Recorder
from workloads import BUS, WORKLOADS, Scene

from ackbus.bus import maintenance
from ackbus.export import archive_writer as archiver
from ackbus.schema.sqlite import checkpoints, transactions

#: The system's name for the time since it was started: another one after a power loss.
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def before_the_power_loss() -> None:
    """Give the system another boot time."""
    opened = builtins.open

    def open_(file: Any, *args: Any, **options: Any) -> Any:
        return io.StringIO("before\n") if file == BOOT_ID else opened(file, *args, **options)

    builtins.open = open_


def make_everything_small() -> None:
    """Make a log of a few pages count as long, so that it is treated as one."""
    transactions.LOOK_AFTER_CHANGES = 1
    checkpoints.CHECKPOINT_PAGES, checkpoints.LONG_PAGES, checkpoints.LEFT_PAGES = 20, 60, 15
    maintenance.SPARE_PAGES = 1
    archiver.SEGMENT_MESSAGES, archiver.FRAME_LINES = 4, 2
    sys.modules["ackbus.bus.log.archive_reader"].REMOVE_MESSAGES = 3  # type: ignore[attr-defined]


def record(name: str, durability: str, without_syncs: Callable[[str], bool]) -> dict[str, Any]:
    """Run a workload, and return what is needed to cut it: the events, the inodes, the files."""
    before, run = WORKLOADS[name]
    before_the_power_loss()
    with tempfile.TemporaryDirectory(dir=shared_memory()) as root:
        scene = Scene(os.path.realpath(root), durability)
        if before is not None:
            before(scene)
        make_everything_small()
        recorder = Recorder(scene.root, without_syncs=without_syncs)
        recorder.install()
        scene.tell = recorder.tell
        run(scene)
        return {
            "events": list(recorder.events),
            "inodes": recorder.inodes,
            "files": files_in(scene.root),
        }


def shared_memory() -> str | None:
    """Return where files cost least; None where there is no such place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def files_in(root: str) -> dict[str, bytes | None]:
    """Return the content of all files, by their paths; None of a folder."""
    found: dict[str, bytes | None] = {}
    for path in sorted(Path(root).rglob("*")):
        if not path.name.endswith(SHARED_MEMORY):
            found[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _, name, durability, output, *unsynced = sys.argv
    recorded = record(
        name, durability, lambda path: any(path.startswith(BUS + part) for part in unsynced)
    )
    Path(output).write_bytes(pickle.dumps(recorded))
