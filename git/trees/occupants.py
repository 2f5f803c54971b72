"""Processes that work in a folder, as far as the kernel tells."""

from __future__ import annotations

import os
from contextlib import suppress


def occupants_of(folder: str) -> list[int]:
    """Return the processes whose working directory is in a folder; none where nobody tells."""
    inside = os.path.realpath(folder)
    found = []
    for pid in _processes():
        with suppress(OSError):  # it has ended, or is another user's
            where = os.readlink(f"/proc/{pid}/cwd")
            if where == inside or where.startswith(inside + os.sep):
                found.append(pid)
    return found


def _processes() -> list[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())
