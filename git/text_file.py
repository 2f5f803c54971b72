"""Text files that git reads while they are written."""

from __future__ import annotations

import os
from contextlib import suppress

#: The suffix of a new file until it replaces the old one.
FRESH = ".new"


def replace_text(path: str, text: str, mode: int) -> None:
    """Write a file beside its place and rename it, so that git never reads half of one."""
    os.replace(write_beside(path, text, mode), path)


def write_beside(path: str, text: str, mode: int) -> str:
    """Write the file that is to take this place, and return where it is until then.

    A link that has that name is removed, never written through.
    """
    fresh = path + FRESH
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
    return fresh
