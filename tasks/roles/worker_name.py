"""The name of a worker, which one process at a time has: the kernel frees it with that process.

So whoever has the name knows that all which its last bearer held is nobody's any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from hashlib import sha256

from ...schema.directory.file_lock import FileLock
from ...schema.directory.lock_holders import holders
from ...schema.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus

#: The folder of the locks, in the bus directory.
LOCKS = "workers"

#: For how long a name is tried: a worker that ends, or is killed, may need a moment.
_PATIENCE_S, _NAP_S = 2.0, 0.02


class WorkerRuns(Refused):
    """Another worker of this name runs already."""


class WorkerName:
    """The right to be the worker of a name, from `acquire` to `close`.

    Args:
        bus: the bus.
        worker: the name.
    """

    def __init__(self, bus: Bus, worker: str) -> None:
        self._bus, self._worker = bus, worker
        self._folder = bus.layout.files.folder(LOCKS)
        self._id = sha256(worker.encode()).hexdigest()[:16]
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Take the name.

        Raises:
            WorkerRuns: another process has it.
        """
        self._folder.make()
        path = self._folder.path_of(f"{self._id}.lock")
        lock, end = FileLock(path, self._folder), time.monotonic() + _PATIENCE_S
        while not lock.try_acquire():
            if time.monotonic() > end:
                who = next(map(str, holders(path)), "another process")
                lock.close()
                raise WorkerRuns(
                    f"worker {self._worker!r} runs already: {who}; choose another name, or end that"
                )
            time.sleep(_NAP_S)
        self._lock = lock

    def close(self) -> None:
        """Give the name back, and remove its scratch folder; more than once does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self.clear()
            lock.close()

    # Scratch -----------------------------------------------------------------------------------

    def fresh_scratch(self) -> str:
        """Return a new, empty folder for one job, for files that belong to no commit.

        Nobody else may read it, nor know its name before: in a folder for everybody's temporary
        files another user could have taken it.
        """
        self.clear()
        return tempfile.mkdtemp(prefix=self._prefix())

    def clear(self) -> None:
        """Remove the scratch folders of this name, also one that a killed bearer has left."""
        begin = self._prefix()
        with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
            for entry in entries:
                if entry.name.startswith(begin) and _is_own_folder(entry):
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _prefix(self) -> str:
        bus = sha256(os.fsencode(self._bus.layout.directory)).hexdigest()[:12]
        return f"ackbus-{os.getuid()}-{bus}-{self._id}-"

    def __enter__(self) -> WorkerName:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder of this user, and no link."""
    is_folder = entry.is_dir(follow_symlinks=False)
    return is_folder and entry.stat(follow_symlinks=False).st_uid == os.getuid()
