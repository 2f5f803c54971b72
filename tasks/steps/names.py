"""The rule of the names of tasks."""

from __future__ import annotations

import re

from ...schema.errors import InvalidInput, shown

#: The form of a task's name: it is a part of a branch, of a path, and of a ref.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def check_task_name(name: str) -> None:
    """Refuse what can't be the name of a task: it is a part of a branch and of a path."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise InvalidInput(
            f"task name {shown(name)} must be 1 to 200 letters, digits, '.', '_' or '-', begin with"
            " a letter or a digit, and have no '..', nor end in '.' or '.lock'"
        )
