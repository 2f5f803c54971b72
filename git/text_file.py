"""Text files that git reads while they are written."""

from __future__ import annotations

import os

#: The suffix of a new file until it replaces the old one.
FRESH = ".new"


def replace_text(path: str, text: str, mode: int) -> None:
    """Write a file beside its place and rename it, so that git never reads half of one."""
    os.replace(write_beside(path, text, mode), path)


def write_beside(path: str, text: str, mode: int) -> str:
    """Write the file that is to take this place, and return where it is until then."""
    fresh = path + FRESH
    with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.chmod(fresh, mode)
        file.write(text)
    return fresh
