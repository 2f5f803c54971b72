"""The `.gitignore` of a bus, where git has its say."""

from __future__ import annotations

import os

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.ignoring import IGNORING
from .repository import Repository
from .sealed import LOOKING, is_in_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema.directory.layout import Layout

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
_LIMIT_S = 5.0


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
    repository = Repository(layout.directory, LOOKING, limit_s=_LIMIT_S)
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
