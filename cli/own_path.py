"""The path of this command, for other programs that run it."""

from __future__ import annotations

import os
import shutil
import sys


def own_path() -> str:
    """Return the path of this command: the PATH of other programs may find another, or none."""
    name = sys.argv[0]
    return os.path.abspath(name) if os.path.dirname(name) else shutil.which(name) or name
