"""Where this very command is, for other programs that are to run it."""

from __future__ import annotations

import os
import shutil
import sys


def own_path() -> str:
    """Return the path of this command: others may be started where PATH has another, or none."""
    name = sys.argv[0]
    return os.path.abspath(name) if os.path.dirname(name) else shutil.which(name) or name
