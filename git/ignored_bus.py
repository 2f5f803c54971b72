"""The `.gitignore` of a bus, where git has its say: an earlier form of it is replaced."""

from __future__ import annotations

import os

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.ignoring import EARLIER_SETUP, IGNORING, default_text, is_earlier_text
from .repository import CommandFailed, GitFailed, Repository
from .sealed import LOOKING, is_in_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema.directory.layout import Layout

#: The comment above the lines of `bus setup git`.
SETUP_COMMENT = EARLIER_SETUP[0]

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


def replace_earlier(layout: Layout) -> bool:
    """Replace a file that an earlier ackbus wrote, unless a person has edited it or git tracks it.

    What was let in by an earlier `bus setup git` stays let in.

    Returns:
        Whether it was replaced.
    """
    text = _text(layout)
    if not is_earlier_text(text) or _is_tracked(layout):
        return False
    fresh = default_text(layout)
    if SETUP_COMMENT in text.splitlines():
        fresh += "".join(f"{line}\n" for line in (SETUP_COMMENT, *LET_IN))
    with Enclosure(layout.directory).spot(_path(layout)) as spot:
        spot.replace(fresh.encode())
    return True


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


def _is_tracked(layout: Layout) -> bool:
    """Whether git has the file; where git can't say, it may have."""
    try:
        repository = Repository(layout.directory)
        return bool(repository.run("ls-files", "-z", "--", f":(literal){IGNORING}"))
    except CommandFailed as error:
        return "not a git repository" not in error.reason
    except GitFailed:
        return True


def _text(layout: Layout) -> str:
    data = Enclosure(layout.directory).read(_path(layout))
    return "" if data is None else data.decode("utf-8", "surrogateescape")


def _path(layout: Layout) -> str:
    return os.path.join(layout.directory, IGNORING)
