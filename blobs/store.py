"""The blob store: bytes in files that are named by their hash, written whole or not at all."""

from __future__ import annotations

import errno
import io
import math
import os
import re
import time

from ..schema import BlobAltered, BlobMissing, BusUnusable, InvalidInput, shown, sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Iterator
    from typing import BinaryIO

#: How many bytes of a blob are held in memory while it streams.
CHUNK_BYTES = 1024 * 1024

_REF = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)
_TEMPORARY = ".tmp-"


class BlobStore:
    """The blobs of one bus directory. Safe to use from any number of threads and processes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def put(self, content: bytes | BinaryIO) -> str:
        """Store bytes, or all that a binary stream still has, and return their name.

        When this returns, the blob is on disk under its name, with the name itself. Content that
        is stored already is not written again. Trying again is safe.

        Raises:
            BusUnusable: it can't be written (disk full, no rights); nothing is left behind.
        """
        try:
            if isinstance(content, bytes):
                ref = _name(_sha256(content))
                if self._is_stored(ref, len(content)):
                    return ref
                content = io.BytesIO(content)
            return self._put_stream(content)
        except OSError as error:
            raise _unwritable(self._directory, error) from error

    def _put_stream(self, content: BinaryIO) -> str:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        name = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        temporary = os.path.join(self._directory, name)
        try:
            ref, size = _write(temporary, content)
            if not self._is_stored(ref, size):
                os.replace(temporary, self._path(ref))
                sync_directory(self._directory)
        finally:
            _remove(temporary)
        return ref

    def read(self, ref: str) -> bytes:
        """Return a blob's bytes, whole in memory, checked against its name.

        Raises:
            InvalidInput: `ref` is not a blob's name.
            BlobMissing: there is no such blob.
            BlobAltered: its bytes are not what its name says.
        """
        try:
            with self._open(ref) as file:
                data = file.read()
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
        return _REF.fullmatch(ref) is not None and os.path.exists(self._path(ref))

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
            return os.stat(self._path(ref)).st_size
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
            size = os.stat(path).st_size
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
            found = os.stat(path)
            if found.st_size != size:
                return False
            os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
        except FileNotFoundError:
            return False
        return True

    def _open(self, ref: str) -> BinaryIO:
        path = self._path(ref)
        try:
            return open(path, "rb")
        except OSError as error:
            raise self._unreadable(ref, error) from error

    def _unreadable(self, ref: str, error: OSError) -> BlobMissing | BusUnusable:
        if isinstance(error, FileNotFoundError):
            return BlobMissing(f"no blob {ref} in {self._directory}")
        return BusUnusable(f"blob {ref} can't be read: {error.strerror}")


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
        return BusUnusable(f"the disk under {directory} is full; nothing was stored")
    return BusUnusable(f"a blob can't be written in {directory}: {error.strerror}")
