"""The blob store: bytes in files that are named by their hash, written whole or not at all."""

from __future__ import annotations

import errno
import io
import math
import os
import re
import stat
import sys
import time
from contextlib import ExitStack, suppress

from ..schema import (
    BlobAltered,
    BlobMissing,
    BusUnusable,
    InvalidInput,
    disk_full,
    shown,
    sync_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

#: How many bytes of a blob are held in memory while it streams.
CHUNK_BYTES = 1024 * 1024

#: How many blobs are remembered to be on the disk: to sync a folder again takes a while.
_REMEMBERED = 1000

_REF = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)
_TEMPORARY = ".tmp-"

#: How a blob is opened: not through a symbolic link, which a clone of git may have brought.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class BlobStore:
    """The blobs of one bus directory. Safe to use from any number of threads and processes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        # The inodes of blobs whose names are on the disk, as far as this process knows.
        self._synced: dict[str, int] = {}

    def put(self, content: bytes | BinaryIO) -> str:
        """Store bytes, or all that a binary stream still has, and return their name.

        When this returns, the blob is on disk under its name, with the name itself. Content that
        is stored already is not written again. Trying again is safe.

        Raises:
            BusUnusable: it can't be written (disk full, no rights); nothing is left behind.
        """
        return self.put_all([content])[0]

    def put_all(self, contents: Iterable[bytes | BinaryIO]) -> list[str]:
        """Store several contents as `put` does, and return their names: all of them or none.

        The disk is waited for once for each that is new, and once for all their names.

        Raises:
            As for `put`.
        """
        new: dict[str, str] = {}  # temporary files, by the names that they are to have
        try:
            with suppress(FileExistsError):  # not its parents: no bus must not look like one
                os.mkdir(self._directory, 0o700)
            with ExitStack() as stack:
                refs = [self._write_if_new(content, new, stack) for content in contents]
                for ref, path in new.items():
                    os.replace(path, self._path(ref))
            self._sync_names(refs)
        except OSError as error:
            raise _unwritable(self._directory, error) from error
        return refs

    def _write_if_new(
        self, content: bytes | BinaryIO, new: dict[str, str], stack: ExitStack
    ) -> str:
        """Return the name of a content, which is in `new` or stored already."""
        if isinstance(content, bytes):
            ref = _name(_sha256(content))
            if ref in new or self._is_stored(ref, len(content)):
                return ref
            content = io.BytesIO(content)
        path = os.path.join(self._directory, f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}")
        stack.callback(_remove, path)
        ref, size = _write(path, content)
        if ref not in new and not self._is_stored(ref, size):
            new[ref] = path
        return ref

    def read(self, ref: str) -> bytes:
        """Return a blob's bytes, whole in memory, checked against its name.

        Raises:
            InvalidInput: `ref` is not a blob's name.
            BlobMissing: there is no such blob.
            BlobAltered: its bytes are not what its name says.
            BusUnusable: the system does not let us read it.
        """
        data = self.read_up_to(ref, sys.maxsize)
        assert data is not None
        return data

    def read_up_to(self, ref: str, max_bytes: int) -> bytes | None:
        """Return a blob's bytes as `read` does, or None when there are more than so many."""
        try:
            fd = os.open(self._path(ref), _READING)
            try:
                size = os.fstat(fd).st_size
                if size > max_bytes:
                    return None
                data = _read(fd, size)
            finally:
                os.close(fd)
        except OSError as error:  # a directory of that name, a broken disk
            raise self._unreadable(ref, error) from error
        if _name(_sha256(data)) != ref:
            raise BlobAltered(_altered(ref))
        return data

    def copy(self, ref: str, out: BinaryIO) -> int:
        """Write a blob to a binary stream in pieces; return its size in bytes.

        It is checked first, so that nothing of an altered blob is written.

        Raises:
            As for `read`.
        """
        self.verify(ref)
        size = 0
        digest = _sha256()
        with self._open(ref) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                out.write(chunk)
        if _name(digest) != ref:  # it was altered between the two looks
            raise BlobAltered(_altered(ref))
        return size

    def copy_part(self, ref: str, out: BinaryIO, first: int, count: int) -> None:
        """Write so many bytes of a blob, from one on, to a binary stream in pieces.

        All of it is checked first, as `copy` does.

        Raises:
            As for `read`.
        """
        self.verify(ref)
        with self._open(ref) as file:
            file.seek(first)
            while count and (chunk := file.read(min(count, CHUNK_BYTES))):
                count -= len(chunk)
                out.write(chunk)

    def verify(self, ref: str) -> int:
        """Check a blob against its name without keeping it in memory; return its size in bytes.

        Raises:
            As for `read`.
        """
        digest = _sha256()
        size = 0
        with self._open(ref) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        if _name(digest) != ref:
            raise BlobAltered(_altered(ref))
        return size

    def __contains__(self, ref: str) -> bool:
        """Whether a blob of this name is there; its bytes are not looked at."""
        return _REF.fullmatch(ref) is not None and _is_file(self._path(ref))

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all blobs, in no order."""
        return (entry.name for entry in self._entries() if _REF.fullmatch(entry.name))

    def size(self, ref: str) -> int:
        """Return a blob's size in bytes.

        Raises:
            InvalidInput: `ref` is not a blob's name.
            BlobMissing: there is no such blob.
            BusUnusable: the system does not let us look.
        """
        try:
            return os.lstat(self._path(ref)).st_size
        except OSError as error:
            raise self._unreadable(ref, error) from error

    def older_than(self, age_s: float) -> list[str]:
        """Return the names of the blobs that nobody has put or read for `age_s` seconds."""
        return [entry.name for entry in self._old_entries(age_s) if _REF.fullmatch(entry.name)]

    def sweep(self, age_s: float) -> None:
        """Remove the temporary files of that age: the process that wrote them has died."""
        for entry in self._old_entries(age_s):
            if entry.name.startswith(_TEMPORARY):
                _remove(entry.path)

    def _old_entries(self, age_s: float) -> Iterator[os.DirEntry[str]]:
        before = time.time() - age_s
        return (entry for entry in self._entries() if _used_at(entry) <= before)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        try:
            entries = os.scandir(self._directory)
        except FileNotFoundError:  # the first blob will make it
            return
        with entries as found:
            yield from found

    def remove(self, ref: str) -> int:
        """Delete a blob and return its size; 0 when it was gone already.

        Only the collector may call this, inside a write transaction in which no message names
        the blob: publishers look for their blobs in theirs.
        """
        path = self._path(ref)
        try:
            size = os.lstat(path).st_size
            os.unlink(path)
        except FileNotFoundError:
            return 0
        return size

    def _path(self, ref: str) -> str:
        if _REF.fullmatch(ref) is None:
            raise InvalidInput(f"{shown(ref)} is not a blob name (sha256- and 64 hex digits)")
        return os.path.join(self._directory, ref)

    def _is_stored(self, ref: str, size: int) -> bool:
        """Whether the blob is there; then it counts as used now, so that the collector waits.

        One of another size than it must have does not count, and so is replaced.
        """
        path = self._path(ref)
        try:
            found = os.lstat(path)
            if found.st_size != size or not stat.S_ISREG(found.st_mode):
                return False
            os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def _sync_names(self, refs: list[str]) -> None:
        """Wait until blobs are on the disk by name; who stored one before may not have waited."""
        inodes = {ref: os.lstat(self._path(ref)).st_ino for ref in refs}
        if inodes.items() <= self._synced.items():
            return
        sync_directory(self._directory)
        if len(self._synced) >= _REMEMBERED:
            self._synced.clear()
        self._synced.update(inodes)

    def _open(self, ref: str) -> BinaryIO:
        path = self._path(ref)
        try:
            return open(os.open(path, _READING), "rb")
        except OSError as error:
            raise self._unreadable(ref, error) from error

    def _unreadable(self, ref: str, error: OSError) -> BlobMissing | BusUnusable:
        if isinstance(error, FileNotFoundError):
            return BlobMissing(f"no blob {ref} in the store")
        return BusUnusable(f"blob {ref} can't be read: {error.strerror}")


def _is_file(path: str) -> bool:
    """Whether an ordinary file is there; a symbolic link is none."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _write(path: str, content: BinaryIO) -> tuple[str, int]:
    """Write a stream to a new file and to the disk; return its blob name and size."""
    digest = _sha256()
    size = 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", buffering=0) as file:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
        os.fsync(file.fileno())
    return _name(digest), size


def _read(fd: int, size: int) -> bytes:
    """Return what is in a file, which should be of that size."""
    data = os.read(fd, size)
    while len(data) < size and (more := os.read(fd, size - len(data))):
        data += more  # the system reads 2 GB at once at most
    return data


def _sha256(data: bytes = b"") -> hashlib._Hash:
    import hashlib  # slow to load, and messages without a blob don't need it

    return hashlib.sha256(data)


def _name(digest: hashlib._Hash) -> str:
    return f"sha256-{digest.hexdigest()}"


def _altered(ref: str) -> str:
    return f"blob {ref} is altered: its bytes do not give its name"


def _used_at(entry: os.DirEntry[str]) -> float:
    """Return when a file was last put or read; infinity for one that was just renamed."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return math.inf
    return max(found.st_mtime, found.st_atime)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _unwritable(directory: str, error: OSError) -> BusUnusable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(directory)
    return BusUnusable(f"a blob can't be written in {directory}: {error.strerror}")
