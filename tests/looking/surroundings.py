"""The place of a walk: a home, programs that note that they were started, and marks of commands.

Hostile files name commands of `Surroundings.command`: each leaves a mark that has its name. On the
PATH in front of all others stand programs that note who called them, and how.
"""

import os
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..command_server import PLAIN

#: What hostile files may have started: shells, what git starts, and what a person's settings name.
PROGRAMS = (
    *(
        "git",
        "sh",
        "bash",
        "env",
        "ssh",
        "gpg",
        "gpgsm",
        "ssh-keygen",
        "less",
        "more",
        "vi",
        "nano",
    ),
    *("emacs", "man", "curl", "wget", "nc", "python3", "perl", "xdg-open", "notify-send", "claude"),
)

#: Leaves a mark beside itself, and fails, so that whoever asked goes on without.
_COMMAND = """#!/bin/sh
echo "$PPID $*" > "$0.ran"
exit 1
"""

_NOTING = """#!/bin/sh
start=$(printf '%s\\037' {name} "$PWD" "${{GIT_DIR-}}" "$@"; printf '\\036')
printf '%s' "$start" >> {log}
{then}
"""

#: The variables that tie git to a repository, or say more than this environment does.
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "Ann" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ann@example.org" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass(frozen=True)
class Start:
    """A program that was started by its name: where, and with which arguments."""

    program: str
    folder: str
    git_dir: str
    arguments: tuple[str, ...]

    def names(self, folder: Path) -> bool:
        """Whether it was started in a folder, or was told it."""
        words = (self.folder, self.git_dir, *self.arguments)
        return any(word == str(folder) or f"{folder}/" in f"{word}/" for word in words)


@dataclass(frozen=True)
class Surroundings:
    """A folder with the home, the programs and the marks of a walk."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Surroundings":
        made = cls(root)
        for folder in (root, made.home, made.marks, made.programs):
            folder.mkdir(parents=True)
        for name in PROGRAMS:
            real = shutil.which("git")
            then = f'exec {real} "$@"' if name == "git" else "exit 1"
            text = _NOTING.format(name=name, log=made.log, then=then)
            _write_program(made.programs / name, text)
        return made

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def marks(self) -> Path:
        return self.root / "marks"

    @property
    def programs(self) -> Path:
        return self.root / "programs"

    @property
    def log(self) -> Path:
        return self.root / "started"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a user here who has set nothing."""
        left_out = ("BUS_", "XDG_", "GIT_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        folders = (str(self.programs), sysconfig.get_path("scripts"), kept["PATH"])
        own = {"HOME": str(self.home), "PATH": os.pathsep.join(folders), "BUS_KEYS_DIR": os.devnull}
        return {**kept, **PLAIN, **_ENVIRONMENT, **own}

    def command(self, name: str) -> Path:
        """Makes the command of a name, which hostile files may call."""
        path = self.marks / name
        _write_program(path, _COMMAND)
        return path

    def mark(self, name: str) -> None:
        """Leaves the mark that the command of a name leaves."""
        (self.marks / f"{name}.ran").touch()

    def ran(self) -> list[str]:
        """Returns the names of the commands that ran, and forgets them."""
        found = sorted(self.marks.rglob("*.ran"))
        for path in found:
            path.unlink()
        return [path.name.removesuffix(".ran") for path in found]

    def started(self) -> list[Start]:
        """Returns the programs that were started by their names, and forgets them."""
        if not self.log.exists():
            return []
        text = self.log.read_text(errors="surrogateescape")
        self.log.unlink()
        starts = [entry.split("\037")[:-1] for entry in text.split("\036")[:-1]]
        return [Start(*start[:3], tuple(start[3:])) for start in starts]


def state_of(*folders: Path, without: tuple[str, ...] = ()) -> Mapping[str, str]:
    """Returns what is in folders: a digest, an address or a kind for each path.

    Args:
        folders: they may be missing.
        without: names of folders that are left out, with all below.
    """
    return {str(path): _state(path) for folder in folders for path in _below(folder, without)}


def _below(folder: Path, without: tuple[str, ...]) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        yield from (Path(above, name) for name in (*folders, *names))


def _state(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_file():
        return f"{path.stat().st_mode:o} {sha256(path.read_bytes()).hexdigest()}"
    return f"{path.lstat().st_mode:o}"


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
