"""The filters and the merge driver that `bus setup git` configures; git runs them.

They are left out of help. Like the hot commands they load no parser: git starts them often.
"""

from __future__ import annotations

import os
import sys

from ...export.jsonl.jsonl_file import open_exported
from ...export.jsonl.parts import exported_files
from ...git.drivers import clean, merge, records
from ...schema.errors import InvalidInput
from ..show.git_lines import readable
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def driver(output: Output, arguments: Sequence[str]) -> Callable[[], int]:
    """Return the driver of a command line of git's, to be called."""
    name, *rest = arguments

    def call() -> int:
        run, count = _DRIVERS[name]
        if len(rest) != count:
            raise InvalidInput(f"bus {name} is for git to run; see 'bus setup git --help'")
        return run(output, *rest)

    return call


def _clean(output: Output, path: str) -> int:
    output.stream().writelines(clean(path, sys.stdin.buffer))
    return 0


def _textconv(output: Output, path: str) -> int:
    """Print the messages of a file in git's order, after other lines, such as a marker."""
    messages: list[tuple[str, str, str]] = []
    for line, record in records(_with_parts(path)):
        if record is None:
            output.line(line.decode("utf-8", "replace").rstrip("\n"))
        else:
            messages.append((record["ts"], record["id"], readable(record)))
    for _, _, text in sorted(messages):
        output.line(text)
    return 0


def _with_parts(path: str) -> Iterator[bytes]:
    """Yield the lines of a file; for a bus's own `bus.jsonl`, those of its older parts too.

    Git hands over the file in the folder where it can, and a copy of what it has where it can't.
    """
    is_whole = os.path.basename(path) == "bus.jsonl"
    if not is_whole:
        with open(path, "rb") as file:
            yield from file
        return
    for name in exported_files(os.path.abspath(path)):
        with open_exported(name) as file:
            yield from file


def _merge(output: Output, _base: str, ours: str, theirs: str, path: str) -> int:
    """Merge into `ours`, as git expects; return 1 for a conflict."""
    with open(ours, "rb") as our_file, open(theirs, "rb") as their_file:
        merged = merge(our_file, their_file)
    with open(ours, "wb") as file:
        file.writelines(merged.lines)
    for id in merged.conflicts:
        output.note(
            f"{path}: message {id!a} has another content on each side; stop 'bus export --follow',"
            " keep one of the lines, and 'git add' the file"
        )
    return 1 if merged.conflicts else 0


_DRIVERS: dict[str, tuple[Callable[..., int], int]] = {
    "git-clean": (_clean, 1),
    "git-textconv": (_textconv, 1),
    "git-merge": (_merge, 4),
}
