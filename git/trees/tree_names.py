"""Names that come of a task's: of a folder, of a ref, and the mark of its tree."""

from __future__ import annotations

import hashlib

from ...schema.errors import InvalidInput, shown

#: How long a name made of a task's may be, in bytes.
_MAX_BYTES = 120

#: The beginning of the reason of git's lock on a tree of ours.
_MARK = "ackbus task "

#: The same for the tree in which a branch's candidates are checked.
CHECK_MARK = "ackbus check "


def safe_name(task: str) -> str:
    """Return a name for a file, and for a part of a ref, that no other task has.

    Letters and digits of any script stay, and so do `-`, `_` and `.` where neither a shell, git nor
    a filesystem reads anything else into them; all others become `%` and their bytes.

    Raises:
        InvalidInput: the task has no name.
    """
    if not task or "\0" in task:
        raise InvalidInput(f"{shown(task)} can be no name of a task")
    parts = []
    for at, char in enumerate(task):
        is_plain = char.isalnum() or char == "_" or (char == "-" and at > 0)
        is_inner_dot = char == "." and 0 < at < len(task) - 1 and task[at + 1] != "."
        if is_plain or (is_inner_dot and task[at:].casefold() != ".lock"):
            parts.append(char)
        else:
            parts += [f"%{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
    name = "".join(parts)
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) <= _MAX_BYTES:
        return name
    digest = hashlib.sha256(task.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return encoded[: _MAX_BYTES - 17].decode("utf-8", "ignore").rstrip("%.") + f"%{digest}"


def mark_of(task: str) -> str:
    """Return the reason that git gives for the lock of a task's tree; it says whose it is."""
    return _MARK + safe_name(task)


def is_marked(reason: str | None) -> bool:
    """Whether the reason of a lock says that the tree is a task's."""
    return reason is not None and reason.startswith(_MARK)


def is_check(reason: str | None) -> bool:
    """Whether the reason of a lock says that candidates are checked in the tree."""
    return reason is not None and reason.startswith(CHECK_MARK)
