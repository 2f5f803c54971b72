"""Reading: files as their bytes, and the hashes of these."""

from __future__ import annotations

import os
import stat

from blake3 import blake3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: How large a file may be, in bytes.
MAX_BYTES = 16 * 1024 * 1024


def read_bytes(path: str | Path) -> bytes:
    """Return what a regular file of limited size holds.

    Raises:
        OSError: it can't be read, or is something else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a file")
        if found.st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES} bytes")
        return file.read(MAX_BYTES + 1)


def hash_of(data: bytes) -> str:
    """Return the BLAKE3 hash of a file's bytes, in hex."""
    return blake3(data).hexdigest()
