"""Putting a file in the place of another at once."""

from __future__ import annotations

import os
import stat
import tempfile

#: The mode of a new file: readable and writable by its owner only.
_MODE = 0o600


def replace_file(path: str, text: str) -> None:
    """Replace a file atomically; its mode stays."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mode = _MODE
    number, temporary = tempfile.mkstemp(dir=folder, prefix=".ackbus-")
    try:
        with open(number, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
