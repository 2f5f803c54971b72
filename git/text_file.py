"""Small text files of git's: read, whatever stands at their place, and replaced at once."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from ..schema.bounded_read import read_plain_file
from ..schema.errors import Refused
from .repository import GitFailed

#: The suffix of a new file until it replaces the old one.
FRESH = ".new"

#: How much a file may have that is read, in bytes.
_MAX_BYTES = 1024 * 1024


def read_small(path: str) -> str:
    """Return what is in a small file, bytes that are no text as surrogates; nothing is waited for.

    Raises:
        FileNotFoundError: it is not there.
        GitFailed: it is no plain file, is too long, or can't be read.
    """
    try:
        return os.fsdecode(read_plain_file(path, _MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from error
    except Refused as error:
        raise GitFailed(str(error)) from error
    except OSError as error:
        raise GitFailed(f"{path} can't be read: {error.strerror}") from error


def is_plain_file(path: str) -> bool:
    """Whether there is a file at a path, and not a pipe, a device or a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_missing(path: str) -> bool:
    """Whether there is nothing, or a file without anything in it; a link or a pipe is neither."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


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
