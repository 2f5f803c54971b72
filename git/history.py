"""The messages that commits added to `bus.jsonl`, read from git's history."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..export.jsonl.parts import PART_GLOB
from ..schema.directory.layout import BUS_DIRECTORY
from ..schema.errors import NotFound
from .drivers import records
from .repository import CommandFailed, GitFailed, Repository
from .sealed import LIMIT_S, LOOKING, sealed_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..schema.message.patterns import TypePattern

#: How a commit's line begins: no line of a difference begins with this character.
_MARK = b"\x01"

#: A line that a commit added, or took out; a merge has a sign for each parent, which must agree:
#: what comes from one of them is not its own. Of two parents and of more, up to git's limit.
_CHANGE = re.compile(rb"(\++|-+)\{")

#: `git log` with the fields to print, and with options that overrule the user's configuration.
_LOG = (
    *("log", "--no-show-signature", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-renames", "--text", "--encoding=UTF-8", "--patch", "--unified=0"),
    "--diff-merges=combined",
    "--format=%x01%H%x00%h%x00%an%x00%aI%x00%s",
)


#: How many bytes of messages one commit may change, to be shown: all of them are held at once.
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and the messages that it added.

    Attributes:
        hash, short: its name, in full and as git abbreviates it.
        author, date, subject: what git says of it; the date in RFC 3339.
        messages: the fields of each message, as in `bus.jsonl`, in order.
    """

    hash: str
    short: str
    author: str
    date: str
    subject: str
    messages: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class MessageFilters:
    """Filters of messages; None for all.

    Attributes:
        conversation: only of this conversation.
        agent: only from or to this agent.
        type: only those that fit this pattern.
    """

    conversation: str | None = None
    agent: str | None = None
    type: TypePattern | None = None

    def match(self, record: dict[str, Any]) -> bool:
        """Whether a message fits."""
        if self.agent is not None and self.agent not in (record.get("from"), record.get("to")):
            return False
        if self.conversation not in (None, record.get("correlation_id", record["id"])):
            return False
        return self.type is None or self.type.matches(str(record.get("type")))


def traffic(
    folder: str, revision: str = "HEAD", *, everywhere: bool = True, filters: MessageFilters
) -> Iterator[Commit]:
    """Yield the commits of a range that added messages, newest first, and only those messages.

    A merge adds the messages that none of its parents had: the others are shown where they were
    first committed. A line that only moved into another file, or changed its form, is not new.

    Args:
        folder: a folder in the repository.
        revision: a revision, whose history is read, or a range such as `main..topic`.
        everywhere: whether of every `.worker-state/` in the repository; else the folder is the
            bus directory.
        filters: which messages are wanted.

    Raises:
        GitFailed: git is not installed, there is no repository, or git failed.
        NotFound: there is no such revision, or no commit at all.
    """
    repository = sealed_around(folder)
    _check(revision, repository)
    inside = f":(top,glob)**/{BUS_DIRECTORY}/" if everywhere else f":(top,glob){_prefix(folder)}"
    paths = [inside + name for name in ("bus.jsonl", PART_GLOB)]
    lines = repository.lines(*_LOG, "--end-of-options", revision, "--", *paths)
    for header, difference in _commits(lines):
        added = [record for record in _added(difference) if filters.match(record)]
        if added:
            hash, short, author, date, subject = header
            yield Commit(hash, short, author, date, subject, added)


def _prefix(folder: str) -> str:
    """Return the path of a folder in its work tree as a pattern of git, with a slash at its end."""
    prefix = Repository(folder, LOOKING, limit_s=LIMIT_S).path("--show-prefix")
    return re.sub(r"([*?\[\\])", r"\\\1", prefix)


def _check(revision: str, repository: Repository) -> None:
    """Make sure that a revision, or a range of them, is there."""
    if revision == "HEAD" and repository.commit(revision) is None:
        raise NotFound("the repository has no commits yet")
    try:
        repository.run("rev-list", "--max-count=0", "--end-of-options", revision, "--")
    except CommandFailed as error:
        raise NotFound(f"no revision {revision!a} in the repository; see 'git log'") from error


def _commits(lines: Iterable[bytes]) -> Iterator[tuple[list[str], list[bytes]]]:
    """Yield the header of each commit, and the lines of its difference.

    Raises:
        GitFailed: a commit changes more than is held at once.
    """
    header: list[str] = []
    difference: list[bytes] = []
    bytes_left = _MOST_BYTES
    for line in lines:
        if line.startswith(_MARK):
            if header:
                yield header, difference
            text = line[1:].decode("utf-8", "replace").removesuffix("\n")
            header, difference, bytes_left = text.split("\0", 4), [], _MOST_BYTES
        elif _CHANGE.match(line):
            difference.append(line)
            bytes_left -= len(line)
            if bytes_left < 0:
                raise GitFailed(
                    f"commit {''.join(header[1:2])} changes more than {_MOST_BYTES >> 20} MiB of"
                    " messages, too many to show; name a range without it"
                )
    if header:
        yield header, difference


def _added(difference: list[bytes]) -> list[dict[str, Any]]:
    """Return the messages that are in the added lines and not in the removed ones."""
    removed = {
        record["id"]
        for _, record in records(line.lstrip(b"-") for line in difference if line[:1] == b"-")
        if record is not None
    }
    added = {
        record["id"]: record
        for _, record in records(line.lstrip(b"+") for line in difference if line[:1] == b"+")
        if record is not None and record["id"] not in removed
    }
    return list(added.values())
