"""Git's drivers for a bus: the configuration of a clone, and the lines in the repository."""

from __future__ import annotations

import os
import shlex

from ..export.jsonl.parts import PART_GLOB, parts_among
from ..schema.directory.enclosure import Enclosure
from ..schema.directory.ignoring import IGNORING, lacking_patterns
from .repository import CommandFailed, Repository
from .staging import LET_IN, SETUP_COMMENT, ignoring_lines
from .work_tree import ExcludeFile, WorkTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema.directory.layout import Layout

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
