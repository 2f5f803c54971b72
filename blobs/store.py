"""The blob store: bytes in files that are named by their hash, written whole or not at all."""

from __future__ import annotations

import errno
import io
import math
import os
import stat
import sys
import time
from contextlib import ExitStack

from ..schema.arguments import with_checked_arguments
from ..schema.directory.folder import inner_folder
from ..schema.errors import BlobAltered, BlobMissing, BusUnusable, InvalidInput, shown
from ..schema.message.names import did_you_mean
from ..schema.system_errors import disk_full

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from ..schema.directory.folder import Folder

#: How many bytes of a blob are held in memory while it streams.
CHUNK_BYTES = 1024 * 1024

#: How many blobs are known to be on the disk: to sync a folder again takes a while.
_REMEMBERED = 1000

#: The beginning of a blob's name, what follows it, and so many of these.
_PREFIX, _HEX, _HEX_CHARS = "sha256-", frozenset("0123456789abcdef"), 64
_TEMPORARY = ".tmp-"


@with_checked_arguments
class BlobStore:
    """The blobs of one bus directory. Safe to use from any number of threads and processes.

    Args:
        directory: where they are, in a bus directory; made with the first of them. A path, or the
            open folder of an open bus; the bus closes that folder's descriptor when it closes.
        may_write: called before a write; raises if nothing may be written there.
    """

    def __init__(
        self, directory: str | Folder, *, may_write: Callable[[], None] = lambda: None
    ) -> None:
        self._folder = inner_folder(directory) if isinstance(directory, str) else directory
        self._may_write = may_write
        # The inodes of blobs whose names this process has synced.
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

        The disk is waited for once for each new blob, and once for all the names.

        Raises:
            As for `put`.
        """
        self._may_write()
        new: dict[str, str] = {}  # temporary files, by the names that they are to have
        try:
            self._folder.make()
            with ExitStack() as stack:
                refs = [self._write_if_new(content, new, stack) for content in contents]
                for ref, temporary in new.items():
                    self._folder.rename(temporary, ref)
            self._sync_names(refs)
        except OSError as error:
            raise _unwritable(self._folder.path, error) from error
        return refs

    def _write_if_new(
        self, content: bytes | BinaryIO, new: dict[str, str], stack: ExitStack
    ) -> str:
        """Write a content to a temporary file unless its blob is stored; return the blob's name.

        `new` gets the file of a new blob. `stack` removes the file unless it is renamed.
        """
        if isinstance(content, bytes):
            ref = _name(_sha256(content))
            if ref in new or self._is_stored(ref, len(content)):
                return ref
            content = io.BytesIO(content)
        temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        stack.callback(self._folder.remove, temporary)
        ref, size = self._write(temporary, content)
        if ref not in new and not self._is_stored(ref, size):
            new[ref] = temporary
        return ref

    def _write(self, name: str, content: BinaryIO) -> tuple[str, int]:
        """Write a stream to a new file and to the disk; return its blob name and size."""
        digest = _sha256()
        size = 0
        with self._folder.new(name) as file:
            while chunk := content.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return _name(digest), size

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
        """Return a blob's bytes as `read` does, or None when there are more than `max_bytes`."""
        try:
            with self._folder.read(_checked(ref)) as file:
                size = os.fstat(file.fileno()).st_size
                if size > max_bytes:
                    return None
                data = file.read(size)
        except OSError as error:  # a directory of that name, a broken disk
            raise _unreadable(ref, error) from error
        if _name(_sha256(data)) != ref:
            raise _altered(ref)
        return data

    def copy(self, ref: str, out: BinaryIO) -> int:
        """Write a blob to a binary stream in pieces; return its size in bytes.

        It is checked first, so that nothing of an altered blob is written.

        Raises:
            As for `read`.
        """
        self.verify(ref)
        size = 0
        for piece in self._pieces(ref):  # raises if it was altered between the two looks
            size += len(piece)
            out.write(piece)
        return size

    def copy_part(self, ref: str, out: BinaryIO, first: int, count: int) -> None:
        """Write so many bytes of a blob, from an offset on, to a binary stream in pieces.

        All of it is checked first, as `copy` does.

        Raises:
            As for `read`.
        """
        self.verify(ref)
        with self._open(ref) as file:
            file.seek(first)
            while count and (piece := _piece(ref, file, min(count, CHUNK_BYTES))):
                count -= len(piece)
                out.write(piece)

    def verify(self, ref: str) -> int:
        """Check a blob against its name without keeping it in memory; return its size in bytes.

        Raises:
            As for `read`.
        """
        return sum(map(len, self._pieces(ref)))

    def _pieces(self, ref: str) -> Iterator[bytes]:
        """Yield a blob's bytes in pieces; raise after the last piece unless they give its name."""
        digest = _sha256()
        with self._open(ref) as file:
            while piece := _piece(ref, file, CHUNK_BYTES):
                digest.update(piece)
                yield piece
        if _name(digest) != ref:
            raise _altered(ref)

    def __contains__(self, ref: str) -> bool:
        """Whether a blob of this name exists; its bytes are not checked."""
        return _is_name(ref) and self._folder.has(ref)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all blobs, in no order."""
        return (name for name in self._folder.names() if _is_name(name))

    def require(self, ref: str) -> int:
        """Return the size of a blob that somebody named; the error of one not here has near names.

        Raises:
            InvalidInput: `ref` is not a blob's name.
            BlobMissing: there is no such blob.
        """
        try:
            return self.size(ref)
        except BlobMissing as error:
            raise BlobMissing(f"{error}{did_you_mean(ref, self, cutoff=0.8)}") from error

    def size(self, ref: str) -> int:
        """Return a blob's size in bytes.

        Raises:
            InvalidInput: `ref` is not a blob's name.
            BlobMissing: there is no such blob.
            BusUnusable: the system does not let us look.
        """
        try:
            status = self._folder.look(_checked(ref))
        except OSError as error:
            raise _unreadable(ref, error) from error
        if status is None:
            raise _missing(ref)
        return status.st_size

    def older_than(self, age_s: float) -> list[str]:
        """Return the names of the blobs that were not put or read for `age_s` seconds."""
        return [name for name in self._old_names(age_s) if _is_name(name)]

    def sweep(self, age_s: float) -> None:
        """Remove the temporary files of that age: the process that wrote them has died."""
        for name in self._old_names(age_s):
            if name.startswith(_TEMPORARY):
                self._folder.remove(name)

    def _old_names(self, age_s: float) -> Iterator[str]:
        before = time.time() - age_s
        return (name for name in self._folder.names() if self._used_at(name) <= before)

    def _used_at(self, name: str) -> float:
        """Return when a file was last put or read; infinity if it is gone."""
        status = self._folder.look(name)
        return math.inf if status is None else max(status.st_mtime, status.st_atime)

    def remove(self, ref: str) -> int:
        """Delete a blob and return its size; 0 when it was gone already.

        Only the collector may call this, inside a write transaction in which no message names
        the blob: publishers check their blobs in their own transactions.
        """
        status = self._folder.look(_checked(ref))
        return status.st_size if status is not None and self._folder.remove(ref) else 0

    def _is_stored(self, ref: str, size: int) -> bool:
        """Whether the blob exists; it then counts as used now, so that the collector waits.

        A blob of a wrong size counts as missing, and so is replaced.
        """
        status = self._folder.look(ref)
        if status is None or status.st_size != size or not stat.S_ISREG(status.st_mode):
            return False
        if status.st_nlink > 1:  # it is another program's file, too
            return False
        try:
            self._folder.set_times(ref, used_ns=time.time_ns(), changed_ns=status.st_mtime_ns)
        except FileNotFoundError:
            return False
        return True

    def _sync_names(self, refs: list[str]) -> None:
        """Sync the names of blobs: the process that stored a blob may have died before it did."""
        statuses = {ref: self._folder.look(ref) for ref in refs}
        inodes = {ref: status.st_ino for ref, status in statuses.items() if status is not None}
        if inodes.items() <= self._synced.items():
            return
        self._folder.sync()
        if len(self._synced) >= _REMEMBERED:
            self._synced.clear()
        self._synced.update(inodes)

    def _open(self, ref: str) -> BinaryIO:
        try:
            return self._folder.read(_checked(ref))
        except OSError as error:
            raise _unreadable(ref, error) from error


def _is_name(text: str) -> bool:
    """Whether a text is the name of a blob; by hand, as `re` takes a shell's time to load."""
    digits = text.removeprefix(_PREFIX)
    return (
        len(text) - len(digits) == len(_PREFIX)
        and len(digits) == _HEX_CHARS
        and set(digits) <= _HEX
    )


def _checked(ref: str) -> str:
    if not _is_name(ref):
        raise InvalidInput(f"{shown(ref)} is not a blob name (sha256- and 64 hex digits)")
    return ref


def _piece(ref: str, file: BinaryIO, size: int) -> bytes:
    """Read the next piece of a blob: a broken disk may fail at any byte."""
    try:
        return file.read(size)
    except OSError as error:
        raise _unreadable(ref, error) from error


def _unreadable(ref: str, error: OSError) -> BlobMissing | BusUnusable:
    if isinstance(error, FileNotFoundError):
        return _missing(ref)
    return BusUnusable(f"blob {ref} can't be read: {error.strerror}")


def _missing(ref: str) -> BlobMissing:
    return BlobMissing(f"no blob {ref} in the store")


def _sha256(data: bytes = b"") -> hashlib._Hash:
    import hashlib  # slow to load, and messages without a blob don't need it

    return hashlib.sha256(data)


def _name(digest: hashlib._Hash) -> str:
    return f"{_PREFIX}{digest.hexdigest()}"


def _altered(ref: str) -> BlobAltered:
    return BlobAltered(f"blob {ref} is altered: its bytes do not give its name")


def _unwritable(directory: str, error: OSError) -> BusUnusable:
    if isinstance(error, BusUnusable):  # its text is for people already
        return error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(directory)
    return BusUnusable(f"a blob can't be written in {directory}: {error.strerror}")
