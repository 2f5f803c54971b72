"""The files of a tree: which of them are text, and how their names travel in messages."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Directories of generated files; hidden ones (.git, .venv) are left out too.
SKIPPED_DIRECTORIES = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})
SKIPPED_ENDING = ".egg-info"

#: A file with a NUL within its first bytes, this many, is binary.
SNIFFED_BYTES = 1024


class Tree:
    """The text files under a directory, found while they are iterated over, in order of names.

    Symbolic links are not followed. A file that can't be opened counts as text: its examination
    reports the error.

    Args:
        root: the directory; a real path.
        leave_out: a real path of a directory to leave out: the bus's own, whose files must not
            be opened by a process that uses the bus.

    Attributes:
        binary: how many binary files have been passed over so far.
        unreadable: how many directories that can't be listed.
    """

    def __init__(self, root: str, *, leave_out: str | None = None) -> None:
        self._root = root
        self._leave_out = leave_out
        self.binary = 0
        self.unreadable = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the path of each, relative to the root."""
        directories = [""]
        while directories:
            inside = directories.pop()
            below = []
            for entry in self._entries(inside):
                path = os.path.join(inside, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if not self._is_skipped(entry):
                        below.append(path)
                elif entry.is_file(follow_symlinks=False) and self._is_text(entry.path):
                    yield path
            directories += reversed(below)

    def _entries(self, inside: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self._root, inside)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError:
            self.unreadable += 1
            return []

    def _is_skipped(self, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        made = name in SKIPPED_DIRECTORIES or name.endswith(SKIPPED_ENDING)
        return made or name.startswith(".") or entry.path == self._leave_out

    def _is_text(self, path: str) -> bool:
        try:
            with open(path, "rb", buffering=0) as file:
                is_binary = b"\0" in file.read(SNIFFED_BYTES)
        except OSError:
            return True
        self.binary += is_binary
        return not is_binary


def path_to_payload(path: str) -> dict[str, str]:
    """Return the payload fields that name a path; JSON can't hold a name that is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode()
        return {"path": shown, "path_hex": os.fsencode(path).hex()}
    return {"path": path}


def path_from_payload(payload: dict[str, str]) -> str:
    """Return the path that `path_to_payload` put into a payload."""
    if "path_hex" in payload:
        return os.fsdecode(bytes.fromhex(payload["path_hex"]))
    return payload["path"]
