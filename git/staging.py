"""Staging: what git's next commit is to have of a bus, with blobs, which git otherwise ignores."""

from __future__ import annotations

import os
import re

import orjson

from ..export.jsonl.jsonl_file import lines_of
from ..export.jsonl.parts import part_names
from ..export.jsonl.replaced_file import exported_files
from ..schema.directory.ignoring import IGNORING
from .ignored_bus import LET_IN, ignoring_lines
from .repository import Repository
from .work_tree import WorkTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.directory.layout import Layout

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
