"""The files of a bus in a git repository: its drivers, what is staged, and its history."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

import orjson

from ..export.jsonl.jsonl_file import lines_of
from ..export.jsonl.parts import PART_GLOB, exported_files, part_names, parts_among
from ..schema.directory.enclosure import Enclosure
from ..schema.directory.ignoring import IGNORING, lacking_patterns
from ..schema.directory.layout import BUS_DIRECTORY
from ..schema.errors import NotFound
from .drivers import records
from .repository import CommandFailed, GitFailed, Repository
from .sealed import LIMIT_S, LOOKING, is_in_repository, sealed_around
from .work_tree import ExcludeFile, WorkTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..schema.directory.layout import Layout
    from ..schema.message.patterns import TypePattern

# Staging: what git's next commit is to have of a bus, with blobs, which git otherwise ignores.

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


# Git's drivers for a bus: the configuration of a clone, and the lines in the repository.

# The commands that git runs as drivers: a line for `sh` each, in the configuration of a clone.
#
# The program may be gone when git runs them: a virtual environment moves, another user or a
# container has another. So each takes the installed one if it starts, else `bus` on the PATH,
# else what keeps git going without losing a line.

#: Runs the first program that starts; 126 and 127 are the shell's for one that can't.
_TRY = (
    'ackbus() {{ "$@" {words}; code=$?; case $code in 126|127) ;; *) exit $code ;; esac; }}; '
    "[ ! -x {program} ] || ackbus {program}; ! command -v bus >/dev/null || ackbus bus; "
)


def clean_command(program: str) -> str:
    """Return the clean filter; without a program git keeps what its index has, if it has any."""
    return _tried(_escaped(program), "git-clean %f") + "git cat-file blob :%f"


def merge_command(program: str) -> str:
    """Return the merge driver; without a program a person gets git's own markers."""
    return _tried(_escaped(program), "git-merge %O %A %B %P") + "git merge-file -q %A %O %B"


def textconv_command(program: str) -> str:
    """Return the diff driver, behind which git puts the file; without a program, that as it is."""
    tried = _tried(program, 'git-textconv "$file"')
    return f'show() {{ file=$1; {tried}cat -- "$1"; }}; show'


def _tried(program: str, words: str) -> str:
    return _TRY.format(program=shlex.quote(program), words=words)


def _escaped(program: str) -> str:
    """Return a path that git does not expand: `%f` would be a file."""
    return program.replace("%", "%%")


#: Git must not touch line ends: blobs are named by their bytes.
_ATTRIBUTES = (
    "bus.jsonl -text filter=ackbus diff=ackbus merge=ackbus",
    f"{PART_GLOB} -text diff=ackbus",
    "blobs/** -text -diff",
)

_NAME = "messages by id"

#: The report of a part that git tracked: with the drivers, its lines are in git's bus.jsonl.
_UNTRACKED = "out of git's index:"


class DriverSetup:
    """The drivers of a bus in the repository that its directory is in.

    Args:
        layout: the bus directory.
        program: the path of the command that git is to run: `bus`.

    Raises:
        GitFailed: git is not installed, or the directory is in no work tree of a repository.
    """

    def __init__(self, layout: Layout, program: str) -> None:
        self._tree = tree = WorkTree.around(layout.directory)
        self._layout = layout
        self._repository = Repository(layout.directory)
        self._ignoring = os.path.join(layout.directory, IGNORING)
        self._excluded = ExcludeFile(tree, layout.directory)
        self._files = {
            self._ignoring: LET_IN,
            os.path.join(layout.directory, ".gitattributes"): _ATTRIBUTES,
        }
        self._config = {
            "filter.ackbus.clean": clean_command(program),
            "filter.ackbus.smudge": "cat",
            # Else git takes the file as it is where bus fails; where there is none, nothing fails.
            "filter.ackbus.required": "true",
            "diff.ackbus.textconv": textconv_command(program),
            "merge.ackbus.name": _NAME,
            "merge.ackbus.driver": merge_command(program),
        }

    def missing(self) -> list[str]:
        """Return the missing settings, a line each; empty when all is set up."""
        missing = [f"{self._ignoring}: {line}" for line in self._unignored()]
        missing += [
            f"{path}: {line}"
            for path, lines in self._files.items()
            for line in _lacking(path, lines)
        ]
        missing += [f"{self._excluded.path}: {line}" for line in self._excluded.lacking()]
        missing += [f"git config {name}" for name in self._unset()]
        return missing + [f"{_UNTRACKED} {name}" for name in self._tracked_parts()]

    def install(self) -> list[str]:
        """Add the missing settings, and keep others.

        Returns:
            The changes, a line each; empty when nothing was missing.

        Raises:
            Refused: the settings are another repository's; nothing was changed.
        """
        self._tree.refuse_led_away()
        done = self.missing()
        if lacking := self._unignored():  # before all others, which say more
            _write(self._ignoring, [*lacking, *_lines(self._ignoring)])
        for path, lines in self._files.items():
            _append(path, _lacking(path, lines))
        self._excluded.add()
        for name in self._unset():
            self._repository.run("config", "--local", name, self._config[name])
        parts = self._tracked_parts()
        if parts:
            self._repository.run("rm", "--cached", "--quiet", "--", *parts)
        return [line if line.startswith(_UNTRACKED) else f"added {line}" for line in done]

    def remove(self) -> list[str]:
        """Remove the settings that `install` adds, and leave others as they are.

        What lives in the bus directory stays ignored.

        Returns:
            The changes, a line each.

        Raises:
            Refused: as for `install`.
        """
        self._tree.refuse_led_away()
        done = []
        for path, lines in self._files.items():
            done += [f"removed {path}: {line}" for line in _take_out(path, lines)]
        done += [f"removed {self._excluded.path}: {line}" for line in self._excluded.remove()]
        for name in self._config:
            if self._configured(name) is not None:
                self._repository.run("config", "--local", "--unset-all", name)
                done.append(f"removed git config {name}")
        return done

    def _unignored(self) -> list[str]:
        """Return the missing patterns, without which git would add, or clean away, live files."""
        return lacking_patterns(self._layout, ignoring_lines(self._layout))

    def _tracked_parts(self) -> list[str]:
        """Return the rotated parts that are in git's index; the files stay when they leave it."""
        listed = self._repository.run("ls-files", "-z", "--", f":(glob){PART_GLOB}")
        return parts_among(listed.decode().split("\0"))

    def _configured(self, name: str) -> str | None:
        """Return a value of the repository's own configuration; None when it is not set."""
        try:
            value = self._repository.run("config", "--local", "--null", "--get", name)
        except CommandFailed:
            return None
        return os.fsdecode(value[:-1])

    def _unset(self) -> list[str]:
        return [name for name, value in self._config.items() if self._configured(name) != value]


def _lines(path: str) -> list[str]:
    """Return the lines of a file; a link out of the bus directory is refused."""
    data = Enclosure(os.path.dirname(path)).read(path)
    return [] if data is None else data.decode("utf-8", "surrogateescape").splitlines()


def _lacking(path: str, lines: tuple[str, ...]) -> list[str]:
    there = set(_lines(path))
    return [line for line in lines if line not in there]


def _append(path: str, lines: list[str]) -> None:
    if lines:
        there = _lines(path)
        _write(path, [*there, *([] if SETUP_COMMENT in there else [SETUP_COMMENT]), *lines])


def _take_out(path: str, lines: tuple[str, ...]) -> list[str]:
    there = _lines(path)
    taken = [line for line in there if line in lines]
    remaining = [line for line in there if line not in (*lines, SETUP_COMMENT)]
    if taken and remaining:
        _write(path, remaining)
    elif taken:
        with Enclosure(os.path.dirname(path)).spot(path) as spot:
            spot.remove()
    return taken


def _write(path: str, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    with Enclosure(os.path.dirname(path)).spot(path) as spot:
        spot.replace(text.encode("utf-8", "surrogateescape"))


# The messages that commits added to `bus.jsonl`, read from git's history.

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
