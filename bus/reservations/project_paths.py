"""The conversion of paths that people type into paths from the root of the project."""

from __future__ import annotations

import os
import re

from ...schema.errors import InvalidInput
from .path_patterns import escape_path, parse_pattern

#: The syntax of other globs that these lack; `!` before a whole glob is refused too.
_ALTERNATIVES = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")


def project_root(bus_directory: str) -> str:
    """Return the folder from which reserved paths count, for the working directory.

    That is the work tree of git around it (git itself need not be asked), or else the folder that
    holds the bus directory.

    Raises:
        InvalidInput: the working directory is in neither.
    """
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):  # a file in linked work trees
        parent = os.path.dirname(folder)
        if parent == folder:
            return _holder_of_the_bus(here, bus_directory)
        folder = parent
    return folder


def paths_from_root(text: str, root: str) -> list[str]:
    """Return a given path or glob as one from the root of the project.

    It counts from the root already, wherever the command runs, unless it is absolute or begins
    with `./` or `../`, which is from here. A folder or file that is there is meant as it is called,
    though its name looks like a glob, as in `app/[id]/page.tsx`; links are followed. A link that is
    named itself can be edited as such, too: then there are two paths, its own and where it leads.

    Raises:
        InvalidInput: it is outside of the project, or can't be parsed.
    """
    if os.path.isabs(text):
        path = _below(root, os.path.normpath(text)) or _below(root, os.path.realpath(text))
    elif text.split("/")[0] in (".", ".."):
        path = _below(root, os.path.normpath(os.path.join(os.getcwd(), text)))
    else:
        path = text
    if path is None:
        raise InvalidInput(f"path {text!r} is outside of the project {root}")
    parts = [part for part in path.split("/") if part] or [""]
    there, reached = 0, root
    for part in parts:
        if part in ("", "..") or not os.path.lexists(os.path.join(reached, part)):
            break
        there, reached = there + 1, os.path.join(reached, part)
    if _ALTERNATIVES.search("/".join(parts[there:])) or (not there and path.startswith("!")):
        raise InvalidInput(
            f"path {text!r}: globs here have no {{a,b}}, and no ! before them; give each path by"
            " itself, or write \\{ and \\! for the characters"
        )
    # A file has one name here, whatever links lead to it. A link out of the project is a file.
    files = [os.path.realpath(reached)] if there else []
    if there == len(parts) and os.path.islink(reached):
        folder, name = os.path.split(reached)
        files.insert(0, os.path.join(os.path.realpath(folder), name))
    below = [path.split("/") for path in (_below(root, file) for file in files) if path is not None]
    return [
        parse_pattern("/".join([*map(escape_path, found), *parts[there:]])).text
        for found in below or [parts[:there]]
    ]


def note_for(text: str, root: str) -> str | None:
    """Return a warning for a path that may have meant a file of this folder, or None.

    In a folder below the root, `a.py` is taken for one at the root. Where that is not there, and
    one here is, it was most likely meant; the shell writes it so for `*.py`, too.
    """
    here = os.getcwd()
    if here == root or text.split("/")[0] in ("", ".", ".."):
        return None
    if os.path.lexists(os.path.join(root, text)) or not os.path.lexists(text):
        return None
    return f"warning: {text} counts from {root}, where it is not; for the one here write ./{text}"


def _holder_of_the_bus(here: str, bus_directory: str) -> str:
    holder = os.path.realpath(os.path.dirname(bus_directory))
    if _below(holder, here) is None:
        raise InvalidInput(
            f"{here} is in no git repository and not beside the bus in {bus_directory}; run this"
            " in the project whose files are meant"
        )
    return holder


def _below(root: str, path: str) -> str | None:
    """Return a path from a folder above it, or None when it is not below it."""
    for base in (root, os.path.realpath(root)):
        if path == base:
            return "."
        if path.startswith(base.rstrip("/") + "/"):
            return path[len(base.rstrip("/")) + 1 :]
    return None
