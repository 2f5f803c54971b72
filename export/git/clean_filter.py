"""The clean filter: what `git add` puts into git for a `bus.jsonl`.

It gives the union of what git has and what is in the folder, so that no bus takes out what another
has put in. Of a message that git has, git's line stays: buses that know it with another time, or in
another spelling, would else replace each other's line for ever.
"""

from __future__ import annotations

import os

from ..replaced import exported_files
from .lines import add, in_order, known_messages_in, messages_in
from .repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def clean(path: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that git is to hold.

    Args:
        path: of the file, relative to the root of the repository, which is the working directory.
        lines: what the file has now.

    Raises:
        InvalidInput: a line is no message, such as a conflict marker.
        GitFailed: git can't tell what it has.
    """
    found = messages_in(lines, path)
    for part in exported_files(os.path.abspath(path)):
        if os.path.basename(part) != os.path.basename(path):  # cut off since the last `git add`
            with open(part, "rb") as file:
                for line in messages_in(file, part).values():
                    add(found, line)
    for staged in _staged(path):
        found.update(known_messages_in(staged))
    return in_order(found)


def _staged(path: str) -> Iterator[bytes]:
    """Yield what the index has of a file: one content, or those of both sides of a conflict."""
    repository = Repository(os.getcwd())
    listed = repository.run("ls-files", "--stage", "-z", "--", f":(top,literal){path}")
    for entry in listed.split(b"\0")[:-1]:
        _mode, name, stage = entry.partition(b"\t")[0].split()
        if stage != b"1":  # what both sides began from
            yield repository.run("cat-file", "blob", name.decode())
