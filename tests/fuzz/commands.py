"""Command lines of `bus`, tried on a copy of one project: in forks of a server, or as processes."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from ackbus import Bus
from ackbus.export.jsonl.exporter import Exporter
from ackbus.export.jsonl.parts import exported_files
from ackbus.schema.queries import file_of

from .library import MAX_ERROR_CHARS, undone

BUS = Path(sysconfig.get_path("scripts"), "bus")
_SERVER = Path(__file__).parent / "server.py"

#: Seconds after which a command counts as hung: many times what one takes on a busy machine.
COMMAND_S = 20.0

#: What is in a folder: inode, size and time of the last change of each file.
Stamp = dict[str, tuple[int, int, int]]

#: Every exit code that docs/cli.md gives a command that nobody interrupted.
EXIT_CODES = {*range(6), 78}
USAGE = 2

#: Where the project is below the folder that is copied: a few `..` do not lead out of that.
_PROJECT = Path("a", "b", "project")

#: The project that every case finds. What a line must end with is its exit code.
_SETUP = [
    "init",
    "publish task.assign first --from lead --to worker-1 --id m-1",
    "publish task.done second --from worker-1 --to lead --id m-2 --reply-to m-1",
    "publish note third --from bob --id m-3",
    "ack worker-1 3",
    "ack lead 3",
    "export",
    "setup git",
    "archive --before 3 --idle-after 0s --pass-over-idle",
    "publish review.request fourth --from lead --id m-4",
    "publish review.request fifth --from lead --id m-5 --header meta=x --priority background",
    "publish note --data - --from bob --id m-6",
    "blob put notes.jsonl",
    "queue create review.request --max-attempts 1",
    "run --type review.request --drain -- false",
    "publish review.request sixth --from lead --id m-7",
    "publish parked.mail seventh --from bob --to alice --id m-8",
    "listen alice --drain --no-session --max-deliveries 1 -- false",
    "heartbeat worker-1 --status working --task x --progress 0.5",
    "lease acquire build --agent alice --ttl 1d",
    "reserve src/** docs/a.md --agent alice --ttl 1d",
    "limit set 5 --inbox lead",
    "search third",
    "job list",  # takes in what came, so that no refused command does
    "export",
]


@dataclass(frozen=True)
class Line:
    """A command line, and what it finds on its standard input."""

    args: tuple[str, ...]
    stdin: bytes = b""


@dataclass(frozen=True)
class Ended:
    """The end of a command; `code` is None if it did not end in time."""

    code: int | None
    out: bytes
    err: str


#: Words of a command line whose effect is on what is the user's, and where in the home that is.
OF_USER = {"key": ".config", "trust": ".config", "windsurf": ".codeium"}


class Commands:
    """Runs commands on a copy of the project, which is made again after one has changed it."""

    def __init__(self, folder: Path, runner: Callable[[Path, Line, Path], int | None]) -> None:
        self.folder = folder
        self.runner = runner
        self._fresh = folder / "fresh"
        self.project = folder / "copy" / _PROJECT
        self.home = environment(self.project)["HOME"]
        self.above = set(map(str, self.project.parents))
        self._stamp: Stamp | None = None
        (folder / "io").mkdir()
        self._set_up(self._fresh / _PROJECT)
        self.digest_before = digest(self._fresh / _PROJECT)

    def _set_up(self, project: Path) -> None:
        project.mkdir(parents=True)
        (project / "notes.jsonl").write_bytes(b'{"type":"note","payload":"x"}\n' * 3)
        (project / "value.json").write_bytes(b'{"a":[1,2.5,null]}')
        git(project, "init", "--quiet", "--template=")
        for text in _SETUP:
            ended = self._run(project, Line(tuple(text.split()), b'{"n":"' + b"x" * 5000 + b'"}'))
            assert ended.code == 0, (text, ended)
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--message", "first")

    def fresh(self) -> Path:
        """The project as every case finds it."""
        if self._stamp is None or self._stamp != self.stamp():
            shutil.rmtree(self.folder / "copy", ignore_errors=True)
            shutil.copytree(self._fresh, self.folder / "copy", symlinks=True)
            self._stamp = self.stamp()
        return self.project

    def run(self, line: Line) -> Ended:
        """Runs a command in the project."""
        return self._run(self.project, line)

    def stamp(self) -> Stamp:
        """The files in the copy of the project and around it, and their times."""
        return {
            os.path.join(folder, name): (there.st_ino, there.st_size, there.st_mtime_ns)
            for folder, folders, names in os.walk(self.folder / "copy")
            for name in (*folders, *names)
            for there in [os.lstat(os.path.join(folder, name))]
            if not name.endswith("-shm")
        }

    def _run(self, project: Path, line: Line) -> Ended:
        place = self.folder / "io"
        (place / "stdin").write_bytes(line.stdin)
        for name in ("stdout", "stderr"):
            (place / name).write_bytes(b"")
        code = self.runner(project, line, place)
        err = (place / "stderr").read_bytes().decode("utf-8", "backslashreplace")
        return Ended(code, (place / "stdout").read_bytes(), err)


def environment(project: Path) -> dict[str, str]:
    """The environment of a command: nothing of this machine's."""
    home = project.parents[1]
    return {
        "HOME": str(home),
        "PATH": f"{BUS.parent}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "100",
        "TZ": "UTC",
        "BUS_AGENT": "alice",
        "BUS_NOTIFY_BACKEND": "stderr",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        **{f"GIT_{who}_NAME": "fuzz" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "fuzz@example.org" for who in ("AUTHOR", "COMMITTER")},
    }


def git(project: Path, *args: str, stdin: bytes = b"") -> bytes:
    """Runs git in the project."""
    done = subprocess.run(
        ["git", *args],
        input=stdin,
        capture_output=True,
        cwd=project,
        env=environment(project),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def forks(folder: Path) -> Iterator[Commands]:
    """A project, and a server whose forks are the commands."""
    with subprocess.Popen(
        [sys.executable, "-P", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def runner(project: Path, line: Line, place: Path) -> int | None:
            request = {
                "args": line.args,
                "cwd": str(project),
                "env": environment(project),
                "timeout_s": COMMAND_S,
                **{name: str(place / name) for name in ("stdin", "stdout", "stderr")},
            }
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
            code: int | None = json.loads(server.stdout.readline())
            return code

        yield Commands(folder, runner)


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[Commands]:
    """A project, and the installed `bus` itself."""

    def runner(project: Path, line: Line, place: Path) -> int | None:
        with (
            open(place / "stdin", "rb") as stdin,
            open(place / "stdout", "wb") as out,
            open(place / "stderr", "wb") as err,
        ):
            try:
                done = subprocess.run(
                    [os.fsencode(BUS), *map(os.fsencode, line.args)],
                    stdin=stdin,
                    stdout=out,
                    stderr=err,
                    cwd=project,
                    env=environment(project),
                    timeout=COMMAND_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return None
        return done.returncode

    with forks(folder) as commands:  # makes the project sooner than processes would
        commands.runner = runner
        yield commands


def command(line: Line, commands: Commands) -> None:
    """Tries one command line, and checks how it ended and what it left behind."""
    commands.fresh()
    before = commands.stamp()
    check_after(line, commands.run(line), before, commands)


def check_after(line: Line, ended: Ended, before: Stamp, commands: Commands) -> None:
    """Checks how a command ended, and what it has changed since the stamp was taken."""
    check_ended(line, ended)
    after = commands.stamp()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if not any(".." in arg for arg in line.args):
        outside = {name for name in changed if not name.startswith(str(commands.project))}
        of_user = {".local"} | {OF_USER[word] for word in line.args if word in OF_USER}
        strange = {
            name
            for name in outside - commands.above
            if of_user.isdisjoint(os.path.relpath(name, commands.home).split(os.sep)[:1])
        }
        assert not strange, strange
    if any("bus.db" in name for name in changed):
        if ended.code == USAGE:
            assert digest(commands.project) == commands.digest_before, "refused, and stored anyway"
        check_stored(commands.project)


def check_ended(line: Line, ended: Ended) -> None:
    """Checks that a command ended in time, with a documented code, and said why in a line."""
    assert ended.code is not None, f"did not end within {COMMAND_S:g} s"
    assert ended.code in EXIT_CODES, ended
    assert not re.search(r"^bus: unexpected \w+: ", ended.err, re.MULTILINE), ended.err
    if {"-v", "--verbose"} & set(line.args):
        return
    assert "Traceback (most recent call last)" not in ended.err, ended.err
    if ended.code != USAGE or "Usage: " in ended.err:
        return
    said = [text for text in ended.err.splitlines() if not text.startswith("bus: warning: ")]
    assert len(said) == 1, ended.err
    if said[0].startswith("{"):
        said[0] = "bus: " + json.loads(said[0])["error"]
    assert said[0].startswith("bus: "), ended.err
    named = {shlex.quote(arg) for arg in line.args}  # a hint names the directory, however long
    told = re.sub(r" --dir (.*)(?='$)", lambda hint: "" if hint[1] in named else hint[0], said[0])
    assert len(told) <= MAX_ERROR_CHARS, f"{len(told)} characters: {told[:200]}"


def digest(project: Path) -> list[object]:
    """All that the bus of the project holds."""
    connection = apsw.Connection(str(project / ".worker-state" / "bus.db"))
    with contextlib.closing(connection):
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")]
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        rows = [
            list(connection.execute(f'SELECT * FROM "{name}"'))
            for (name,) in tables
            if not name.startswith("catalog")  # it follows the log whenever somebody looks
        ]
    return [names, rows]


def check_stored(project: Path) -> None:
    """Checks that what was stored can be read back, exported, and is known when imported again."""
    with Bus.open(project / ".worker-state") as bus:
        assert file_of(bus).row("PRAGMA quick_check") == ("ok",)
        lines = [message.to_line() for message in bus.read()]
        for line in lines:
            assert isinstance(json.loads(line), dict)
        exported = b"".join(line + b"\n" for line in lines)
        with undone(bus):
            report = bus.import_jsonl(io.BytesIO(exported))
        assert (report.stored, report.skipped) == (0, 0), report
        Exporter(bus).rebuild()
        files = exported_files(bus.layout.jsonl)
        assert b"".join(Path(name).read_bytes() for name in files) == exported
