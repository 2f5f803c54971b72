"""Processes that work in a folder, as far as the kernel tells."""

from __future__ import annotations

import os
from contextlib import suppress

from ...schema.process_table import process_ids


def occupants_of(folder: str) -> list[int]:
    """Return the processes whose working directory is in a folder; none where nobody tells."""
    inside = os.path.realpath(folder)
    found = []
    for pid in process_ids():
        with suppress(OSError):  # it has ended, or is another user's
            where = os.readlink(f"/proc/{pid}/cwd")
            if where == inside or where.startswith(inside + os.sep):
                found.append(pid)
    return found
