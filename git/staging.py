"""Staging: what git's next commit is to have of a bus, with blobs, which git otherwise ignores."""

from __future__ import annotations

import os
import re

import orjson

from ..export.jsonl.jsonl_file import lines_of
from ..export.jsonl.parts import exported_files, part_names
from ..schema.directory.enclosure import Enclosure
from ..schema.directory.ignoring import IGNORING
from .repository import Repository
from .sealed import LOOKING, is_in_repository
from .work_tree import WorkTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.directory.layout import Layout

# The `.gitignore` of a bus, where git has its say.

#: The comment above the lines of `bus setup git`.
SETUP_COMMENT = "# Written by 'bus setup git', which every clone runs for itself."

#: The lines by which git may have what is shared of a bus: lines of the parts are in bus.jsonl.
LET_IN = ("!/.gitignore", "!/.gitattributes", "!/bus.jsonl")

#: Names of what lives in a bus directory.
_LIVE = (
    *("bus.db", "bus.db-wal", "search.db", "write.lock", "crew.json"),
    *("logs/worker.log", "archive/1", f"blobs/sha256-{'0' * 64}"),
)

#: How long git may take for a question, in seconds: a file that it reads may be a pipe.
_REPLACING_LIMIT_S = 5.0


def ignoring_lines(layout: Layout) -> list[str]:
    """Return the lines of the file; none where it is missing."""
    return _text(layout).splitlines()


def unignored(layout: Layout) -> list[str]:
    """Return names of what lives in a bus that git would take, and sweep away; none outside of git.

    Made-up names stand for what is not there yet. Git reads what is ignored, and runs nothing.

    Raises:
        GitFailed: git can't say.
    """
    if not is_in_repository(layout.directory):
        return []
    repository = Repository(layout.directory, LOOKING, limit_s=_REPLACING_LIMIT_S)
    # A setting of the repository may name a pipe for it.
    command = ("-c", f"core.excludesFile={os.devnull}", "check-ignore", "--no-index", "-z")
    asked = "\0".join(_LIVE).encode()
    answer = repository.run(*command, "--stdin", stdin=asked, accepted=(0, 1))
    ignored = set(answer.decode().split("\0"))
    return [name for name in _LIVE if name not in ignored]


def _text(layout: Layout) -> str:
    data = Enclosure(layout.directory).read(_path(layout))
    return "" if data is None else data.decode("utf-8", "surrogateescape")


def _path(layout: Layout) -> str:
    return os.path.join(layout.directory, IGNORING)


#: Files that are staged where they are there, and `bus setup git` has let them in.
_BESIDE = (IGNORING, ".gitattributes")

#: The name of a blob: no path.
_REF = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)

#: How long git may take to read them, its filter included, in seconds.
_LIMIT_S = 600.0


def stage(layout: Layout) -> int:
    """Stage `bus.jsonl`, the blobs that it names, `.gitignore` and `.gitattributes` for git.

    Returns:
        How many blobs it names, as far as they are there.

    Raises:
        GitFailed: the bus directory is in no work tree, or git refuses the file.
    """
    directory = layout.directory
    WorkTree.around(directory)
    refs = {ref for ref in _named(layout.jsonl) if layout.blob_folder.has(ref)}
    # Without the drivers git has the parts beside the file.
    is_set_up = LET_IN[0] in ignoring_lines(layout)
    beside = _BESIDE if is_set_up else (*part_names(directory), "bus.index.json")
    files = [name for name in ("bus.jsonl", *beside) if layout.files.has(name)]
    paths = [*files, *(os.path.join("blobs", ref) for ref in sorted(refs))]
    Repository(directory).run(
        *("add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"),
        stdin="\0".join(f":(literal){path}" for path in paths).encode(),
        limit_s=_LIMIT_S,
    )
    return len(refs)


def _named(jsonl: str) -> Iterator[str]:
    """Yield the blobs that the exported lines name, also where they are no lines of ours."""
    for path in exported_files(jsonl):
        for line in lines_of(path):
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # a marker of git's, or a torn line: git's filter judges these
            ref = record.get("payload_ref") if isinstance(record, dict) else None
            if isinstance(ref, str) and _REF.fullmatch(ref):
                yield ref
