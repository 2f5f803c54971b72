"""Records, in order, all that this process does to the files under a folder.

SQLite's part comes from an apsw VFS that is the default one for every connection, that of plain
files from the functions of `os` and from `open`, which are replaced. Whether anything is missed is
tested: what is recorded, played into the model of a disk, gives the files as they are.
"""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import apsw

#: A call of a method of `Disk`: its name and its arguments; or what a program was told.
Event = tuple[Any, ...]

#: SQLite syncs the folder with the first sync of a file that it opens as one of these.
_WITH_FOLDER = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

#: Shared memory, which is made anew after a power loss.
SHARED_MEMORY = "-shm"


class Recorder:
    """Watches the files under `root`, in which whatever is there now is on the disk.

    Args:
        root: the folder.
        without_syncs: whether to leave out of the record that anything is synced: so a disk looks
            that only says so.
    """

    def __init__(self, root: str, *, without_syncs: Callable[[str], bool] = lambda path: False):
        self.root = os.path.realpath(root)
        self.events: list[Event] = []
        self._lock = threading.RLock()  # what happens and its record are one step
        self._numbers = count(1)
        self._files: dict[int, int] = {}  # the number of the file with an inode
        self.inodes: dict[int, int] = {}  # and back
        self._descriptors: dict[int, tuple[str, int]] = {}
        self._without_syncs = without_syncs
        self._take_stock()

    def _take_stock(self) -> None:
        for folder, folders, files in os.walk(self.root):
            for name in sorted(folders):
                self.events.append(("mkdir", self.relative(os.path.join(folder, name))))
            for name in sorted(files):
                if not name.endswith(SHARED_MEMORY):
                    path = os.path.join(folder, name)
                    self._created(path)
                    with open(path, "rb") as file:
                        self.wrote(path, self.number_of(path), 0, file.read())
        self.events.append(("sync_all",))

    def relative(self, path: str) -> str:
        """Return a path as the journal has it."""
        return os.path.relpath(path, self.root) if path != self.root else ""

    def is_watched(self, path: object) -> bool:
        """Whether it is under the root, and kept over a power loss."""
        return isinstance(path, str) and (path + "/").startswith(self.root + "/")

    def tell(self, *fact: object, firmly: bool = False) -> None:
        """Record that a program was told something: that it is stored, or `firmly` on the disk."""
        self.note("told", fact, firmly)

    def note(self, *event: object) -> None:
        """Put an event on record."""
        with self._lock:
            self.events.append(event)

    # Steps: a call of the system, and its record. ------------------------------------------------

    def open(self, path: str, call: Callable[[], Any]) -> tuple[Any, int]:
        """Open a file, which may make it; return what the call returns, and the file's number."""
        with self._lock:
            is_new = not os.path.lexists(path)
            result = call()
            if is_new:
                self._created(path)
            return result, self.number_of(path)

    def _created(self, path: str) -> None:
        inode = os.stat(path).st_ino
        self._files[inode] = number = next(self._numbers)
        self.inodes[number] = inode
        self.note("create", self.relative(path), number)

    def number_of(self, path: str) -> int:
        """Return the number of a file; 0 for a folder."""
        return 0 if os.path.isdir(path) else self._files[os.stat(path).st_ino]

    def wrote(self, path: str, number: int, at: int, data: bytes) -> None:
        """Put on record what was written just now."""
        self.note("write", number, at, bytes(data), os.stat(path).st_mtime_ns)

    def step(self, call: Callable[[], Any], *event: object) -> Any:
        """Do something, and put it on record."""
        with self._lock:
            result = call()
            self.note(*event)
            return result

    def sync(self, path: str, number: int, call: Callable[[], Any]) -> Any:
        """Sync a file, or a folder, whose number is 0."""
        with self._lock:
            result = call()
            if not self._without_syncs(self.relative(path)):
                self.note(*(("sync", number) if number else ("sync_folder", self.relative(path))))
            return result

    # Plain files. --------------------------------------------------------------------------------

    def install(self) -> None:
        """Watch from now on, until the process ends."""
        self._vfs = _VFS(self)
        for name in ("open", "fsync", "fdatasync", "write", "pwrite", "ftruncate", "sendfile"):
            setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
        for name in ("mkdir", "unlink", "remove", "rmdir"):
            event = "mkdir" if name == "mkdir" else "unlink"
            setattr(os, name, self._by_name(getattr(os, name), event))
        os.rename = self._renaming(os.rename)
        os.replace = self._renaming(os.replace)
        builtins.open = io.open = self._opening(builtins.open)

    def _open(self, call: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
            full = _full(path, options)
            if not self.is_watched(full) or full.endswith(SHARED_MEMORY):
                return self._untracked(call(path, flags, *args, **options))
            with self._lock:
                fd, number = self.open(full, lambda: call(path, flags, *args, **options))
                self._descriptors[fd] = full, number
                if flags & os.O_TRUNC:
                    self.note("truncate", number, 0, os.fstat(fd).st_mtime_ns)
                return fd

        return opened

    def _untracked(self, fd: int) -> int:
        self._descriptors.pop(fd, None)
        return fd

    def _fsync(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        def fsync(file: Any) -> None:
            fd = file if isinstance(file, int) else file.fileno()
            if fd not in self._descriptors:  # a folder above the root
                call(fd)
                return
            path, number = self._descriptors[fd]
            self.sync(path, number, lambda: call(fd))

        return fsync

    _fdatasync = _fsync

    def _write(self, call: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def write(fd: int, data: Any) -> int:
            if fd not in self._descriptors:
                return call(fd, data)
            return self.at_position(fd, data, lambda: call(fd, data))

        return write

    def at_position(self, fd: int, data: Any, call: Callable[[], int]) -> int:
        """Write where a descriptor stands: behind the end, where it appends."""
        _, number = self._descriptors[fd]
        with self._lock:
            written = call()
            at = os.lseek(fd, 0, os.SEEK_CUR) - written  # O_APPEND moves it there, too
            self._note_write(fd, number, at, bytes(data)[:written])
            return written

    def _note_write(self, fd: int, number: int, at: int, data: bytes) -> None:
        self.note("write", number, at, data, os.fstat(fd).st_mtime_ns)

    def _pwrite(self, call: Callable[..., int]) -> Callable[..., int]:
        def pwrite(fd: int, data: Any, at: int) -> int:
            with self._lock:
                written = call(fd, data, at)
                if fd in self._descriptors:
                    self._note_write(fd, self._descriptors[fd][1], at, bytes(data)[:written])
                return written

        return pwrite

    def _ftruncate(self, call: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def ftruncate(fd: int, size: int) -> None:
            with self._lock:
                call(fd, size)
                changed_ns = os.fstat(fd).st_mtime_ns
                self.note("truncate", self._descriptors[fd][1], size, changed_ns)

        return ftruncate

    def _sendfile(self, call: Callable[..., int]) -> Callable[..., int]:
        def sendfile(to: int, source: int, at: int, size: int) -> int:
            return os.write(to, os.pread(source, size, at))

        return sendfile

    def _by_name(self, call: Callable[..., None], event: str) -> Callable[..., None]:
        def change(path: Any, *args: Any, **options: Any) -> None:
            full = _full(path, options)
            if not self.is_watched(full) or full.endswith(SHARED_MEMORY):
                call(path, *args, **options)
            else:
                self.step(lambda: call(path, *args, **options), event, self.relative(full))

        return change

    def _renaming(self, call: Callable[..., None]) -> Callable[..., None]:
        def rename(path: Any, to: Any, **options: Any) -> None:
            source = _full(path, {"dir_fd": options.get("src_dir_fd")})
            target = _full(to, {"dir_fd": options.get("dst_dir_fd")})
            names = self.relative(source), self.relative(target)
            self.step(lambda: call(path, to, **options), "rename", *names)

        return rename

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any):
            is_of_ours = file in self._descriptors if isinstance(file, int) else True
            if not set(mode) & set("wax+") or not is_of_ours or not self._is_ours(file):
                return call(file, mode, buffering, *args, **options)
            binary = mode.replace("t", "").replace("b", "")
            raw = _RawFile(self, file, binary, closefd=options.pop("closefd", True))
            if buffering == 0:
                return raw
            both = "+" in mode
            buffered = io.BufferedRandom(raw) if both else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *args, **options)

        return opened

    def _is_ours(self, file: Any) -> bool:
        return isinstance(file, int) or self.is_watched(os.path.abspath(os.fspath(file)))


def _full(path: Any, options: dict[str, Any]) -> str:
    """Return the whole path of a file, which may be named within an open folder."""
    folder = options.get("dir_fd")
    within = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
    name = os.fsdecode(path) if not isinstance(path, int) else os.readlink(f"/proc/self/fd/{path}")
    return os.path.normpath(os.path.join(within, name))


class _RawFile(io.FileIO):
    """A file that `open` returns, below its buffer."""

    def __init__(self, recorder: Recorder, file: Any, mode: str, *, closefd: bool) -> None:
        self._recorder = recorder
        super().__init__(file, mode, closefd, opener=None if isinstance(file, int) else _open_as)

    def write(self, data: Any) -> int:
        return self._recorder.at_position(
            self.fileno(), data, lambda: super(_RawFile, self).write(data)
        )

    def truncate(self, size: int | None = None) -> int:
        wanted = self.tell() if size is None else size
        os.ftruncate(self.fileno(), wanted)
        return wanted


def _open_as(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o666)


class _VFS(apsw.VFS):
    """SQLite's way to the disk, on record."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._base = apsw.vfs_names()[0]
        super().__init__("recording", self._base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if not self._recorder.is_watched(path):
            return apsw.VFSFile(self._base, name, flags)
        file, number = self._recorder.open(path, lambda: _File(self._base, name, flags))
        file.watch(self._recorder, path, number, flags[0])
        return file

    def xDelete(self, name: str, sync_folder: bool) -> None:
        recorder, delete = self._recorder, super().xDelete
        recorder.step(lambda: delete(name, sync_folder), "unlink", recorder.relative(name))
        if sync_folder:
            recorder.sync(os.path.dirname(name), 0, lambda: None)


class _File(apsw.VFSFile):
    """A file of SQLite, on record."""

    def watch(self, recorder: Recorder, path: str, number: int, flags: int) -> None:
        self._recorder, self._path, self._number = recorder, path, number
        self._syncs_folder = bool(flags & _WITH_FOLDER and flags & apsw.SQLITE_OPEN_CREATE)

    def xWrite(self, data: bytes, at: int) -> None:
        # Its time of change is of no interest: nobody asks for that of a database.
        write = super().xWrite
        self._recorder.step(lambda: write(data, at), "write", self._number, at, bytes(data), 0)

    def xTruncate(self, size: int) -> None:
        truncate = super().xTruncate
        self._recorder.step(lambda: truncate(size), "truncate", self._number, size, 0)

    def xSync(self, flags: int) -> None:
        sync = super().xSync
        self._recorder.sync(self._path, self._number, lambda: sync(flags))
        if self._syncs_folder:
            self._syncs_folder = False
            self._recorder.sync(os.path.dirname(self._path), 0, lambda: None)
