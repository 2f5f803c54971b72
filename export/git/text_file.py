"""Text files that git reads while they are written."""

from __future__ import annotations

import os


def replace_text(path: str, text: str, mode: int) -> None:
    """Write a file beside its place and rename it, so that git never reads half of one."""
    fresh = path + ".new"
    with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.chmod(fresh, mode)
        file.write(text)
    os.replace(fresh, path)
