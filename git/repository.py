"""Git, as a process with fixed arguments. Publishing and reading never run it.

Its output here depends on no setting of a user, and on no language.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from contextlib import contextmanager, suppress

from ..schema.bounded_read import read_plain_file
from ..schema.children import ReapedChild, bound, run_child
from ..schema.errors import AckbusError, Refused
from .limited import LOOK_BOUNDS, LOOK_S, lines_of, seconds_left, starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..schema.children import ExitedChild
    from ..workers.processes.own_child import StopSwitch

#: Names as they are, every commit in full, complaints in English, and no lock taken that git
#: could do without.
_SETTINGS = (
    *("-c", "core.quotePath=false"),
    *("-c", "log.showRoot=true"),
    *("-c", "log.follow=false"),
    # Neither is a program of the repository asked which files changed, nor is a repository taken
    # that lies among the files of another one, unless it is named.
    *("-c", "core.fsmonitor=false"),
    *("-c", "safe.bareRepository=explicit"),
)
_ENVIRONMENT = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}

#: Variables that tie git to one repository or index: set in hooks, and of no use to us.
OF_ONE_PLACE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_INDEX_VERSION"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_CEILING_DIRECTORIES", "GIT_LITERAL_PATHSPECS", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
)

#: Variables for a git that belongs to no hook or folder around it, and asks no person anything.
UNATTENDED: dict[str, str | None] = {
    **dict.fromkeys(OF_ONE_PLACE),
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
}

#: How long a call without a limit may take, in seconds: a work tree may have a pipe in the place of
#: a file, and git would wait for it without end.
_LONGEST_S = 600.0

#: The whole id of an object, by either of git's digests.
_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def is_whole_id(text: str) -> bool:
    """Whether a text is the whole id of an object: no name, no option and no second line."""
    return _ID.fullmatch(text) is not None


class GitFailed(AckbusError):
    """Git is not installed, has no repository here, or failed."""


class CommandFailed(GitFailed):
    """Git ended with an error.

    Attributes:
        reason: its first complaint.
        advice: its last line, where that is no complaint: what to do; else empty.
        code: its exit code; of a signal that ended it, the negative number.
        stderr, stdout: what it wrote to each.
    """

    def __init__(self, command: str, stderr: bytes, code: int = 1, stdout: bytes = b"") -> None:
        self.code = code
        self.stderr, self.stdout = stderr, stdout
        lines = stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {code}"]
        complaints = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        self.reason = next(iter(complaints), lines[0]).removeprefix("fatal: ")
        self.advice = "" if lines[-1] in (lines[0], *complaints) else lines[-1].strip()
        super().__init__(f"git {command} failed: {self.reason}")


class OutOfTime(GitFailed):
    """Git, or a hook or a program that it ran, reached its time limit, and was ended."""


class LookCut(OutOfTime):
    """Git had not answered when the time of a look was over; nothing of a repository ran."""


class Repository:
    """The repository that a folder is in.

    Args:
        folder: where git is run.
        environment: variables of git beside those of this process; None takes one away.
        limit_s: marks the repository as one to look into: how long each call may take at most, in
            seconds. None: calls are looks only within `one_look`, whose time they share.
        name: of the repository in errors; the folder, unless it is given.
    """

    def __init__(
        self,
        folder: str,
        environment: Mapping[str, str | None] | None = None,
        *,
        limit_s: float | None = None,
        name: str | None = None,
    ) -> None:
        self.folder = folder
        self._environment = environment or {}
        self._limit_s = limit_s
        self._name = name or folder

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        limit_s: float | None = None,
        pass_fds: Sequence[int] = (),
        accepted: Sequence[int] = (0,),
    ) -> bytes:
        """Run git and return its output.

        Args:
            arguments: of git.
            stdin: what it may read.
            limit_s: after how many seconds it is ended, with all that it started; None: ten
                minutes. The limit of a look ends it sooner.
            pass_fds: descriptors that git inherits: of locks that it holds with us.
            accepted: the exit codes that are no error.

        Raises:
            GitFailed: git is not installed.
            CommandFailed: it ended with an error.
            OutOfTime: it reached the limit.
        """
        limit_s = _LONGEST_S if limit_s is None else limit_s
        look_s = self._look_s()
        if look_s == 0:
            raise self._cut(arguments)
        ends_by_look = look_s is not None and look_s <= limit_s
        if look_s is not None:
            limit_s = min(look_s, limit_s)
        with self._start_errors():
            ended = run_child(
                ["git", *_SETTINGS, *arguments],
                limit_s=limit_s,
                stdin=stdin,
                bounds=LOOK_BOUNDS if ends_by_look else None,
                starting=starting,
                cwd=self.folder,
                env=self.environment(),
                pass_fds=pass_fds,
            )
        if ended is None and ends_by_look:
            raise self._cut(arguments)
        if ended is not None and ended.is_too_much:
            raise self._too_much(arguments)
        return _output(arguments, ended, limit_s, accepted)

    def _look_s(self) -> float | None:
        """Return how long git may take where this is a look, 0 when its time is over; else None."""
        limits = (seconds_left(), self._limit_s)
        return min((limit for limit in limits if limit is not None), default=None)

    def _cut(self, arguments: Sequence[str]) -> LookCut:
        where, what = os.path.abspath(self._name), _command(arguments)
        return LookCut(
            f"{where} is not looked into: git {what} had no answer when the {LOOK_S:g} s of a look"
            " were over; a file of git's there may be a pipe or a device, or be very large"
        )

    def _too_much(self, arguments: Sequence[str]) -> GitFailed:
        where, what = os.path.abspath(self._name), _command(arguments)
        return GitFailed(
            f"{where} is not looked into: what git {what} prints is more than is taken of a look;"
            " look with git itself"
        )

    def run_guarded(self, *arguments: str, limit_s: float, stop: StopSwitch | None = None) -> bytes:
        """Run git where it runs a program of the user: all of it ends with this process.

        Raises:
            ProgramNotStarted, CommandFailed, OutOfTime: as for `run`.
            ProgramStopped: the switch was thrown before it had ended.
        """
        from .limited import run_guarded

        ended = run_guarded(
            ["git", *_SETTINGS, *arguments],
            folder=self.folder,
            environment=self.environment(),
            limit_s=limit_s,
            stop=stop,
        )
        return _output(arguments, ended, limit_s, (0,))

    def lines(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield its output line by line; git ends when the caller stops reading.

        The limit of a look is one of waiting: for the first output, and then for each further one.

        Raises:
            GitFailed: git is not installed, or a line is too long to be one.
            CommandFailed: it ended with an error.
            LookCut: it printed nothing within the limit.
        """
        import tempfile

        look_s = self._look_s()
        process = None
        with tempfile.TemporaryFile() as err:  # an unread pipe of errors would block git
            try:
                with self._start_errors(), starting():
                    process = ReapedChild(
                        ["git", *_SETTINGS, *arguments],
                        cwd=self.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=err,
                        env=self.environment(),
                    )
                assert process.stdout is not None
                if look_s is not None:
                    bound(process, LOOK_BOUNDS)
                further_s = None if look_s is None else LOOK_S
                yield from lines_of(process.stdout.fileno(), look_s, further_s)
                code = process.wait(further_s)
            except (TimeoutError, subprocess.TimeoutExpired):
                raise self._cut(arguments) from None
            except OverflowError as error:
                raise self._too_much(arguments) from error
            finally:
                if process is not None:
                    with process:
                        process.kill()
            if code:
                err.seek(0)
                raise CommandFailed(_command(arguments), err.read(), code)

    def describe(self, *questions: str) -> list[str]:
        """Return git's answers about the repository, a line for each question to `rev-parse`.

        Raises:
            GitFailed: git is not installed, there is no repository, or git refuses to use it.
        """
        try:
            answers = os.fsdecode(self.run("rev-parse", *questions))
            return answers.removesuffix("\n").split("\n")  # a path may have other ends of lines
        except CommandFailed as error:
            raise self._unusable(error) from error

    def path(self, question: str) -> str:
        """Return git's answer to a question that is a path, which may have any byte but NUL.

        Raises:
            GitFailed: as for `describe`.
        """
        try:
            return os.fsdecode(self.run("rev-parse", question)).removesuffix("\n")
        except CommandFailed as error:
            raise self._unusable(error) from error

    def _unusable(self, error: CommandFailed) -> GitFailed:
        """Return the error for a folder where git finds no usable repository."""
        name = "the working directory" if self._name == os.curdir else self._name
        is_none = error.reason.startswith("not a git repository")  # its advice is about mounts
        if error.advice and not is_none:  # there is one, which git uses when that is done
            return GitFailed(f"git refuses {name}: {error.reason}; its advice: {error.advice}")
        return GitFailed(f"{name} is in no git repository: {error.reason}")

    def commit(self, name: str) -> str | None:
        """Return the id of a commit, or None when there is none of this name."""
        if name.startswith("-") or "\0" in name:  # an option, and nothing that git takes
            return None
        try:
            id = self.run("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
        except CommandFailed:
            return None
        return id.decode().strip()

    def commits(self, names: Sequence[str]) -> list[str | None]:
        """Return the ids of commits, in one process; None for each name of no commit.

        No name is taken for an option, and no range for a commit.
        """
        plain = [name for name in names if "\n" not in name and "\0" not in name]
        asked = "".join(f"{name}^{{commit}}\n" for name in plain)
        try:
            output = self.run(
                *("cat-file", "--batch-check=%(objectname)"),
                stdin=asked.encode("utf-8", "surrogateescape"),
            )
        except CommandFailed:  # one name ended it, such as `main@{upstream}` where there is none
            return [None] if len(names) == 1 else [self.commits([name])[0] for name in names]
        answers = dict(zip(plain, output.splitlines(), strict=True))
        ids = (answers.get(name, b"").decode("utf-8", "replace") for name in names)
        return [id if is_whole_id(id) else None for id in ids]

    def with_variables(self, extra: Mapping[str, str | None]) -> Repository:
        """Return the same repository, with more variables."""
        return Repository(
            self.folder, {**self._environment, **extra}, limit_s=self._limit_s, name=self._name
        )

    def with_work_tree(self, folder: str) -> Repository:
        """Return the same repository, with a folder for its work tree, in which git is run."""
        environment = {**self._environment, "GIT_WORK_TREE": folder}
        return Repository(folder, environment, limit_s=self._limit_s, name=self._name)

    def environment(self) -> dict[str, str]:
        """Return the variables of git here."""
        variables: dict[str, str | None] = {**os.environ, **self._environment, **_ENVIRONMENT}
        return {key: value for key, value in variables.items() if value is not None}

    @contextmanager
    def _start_errors(self) -> Iterator[None]:
        """Turn the system's errors at the start of git into `GitFailed`."""
        try:
            yield
        except OSError as error:
            if error.filename == self.folder:
                missing = isinstance(error, FileNotFoundError)
                why = "is not there" if missing else f"can't be entered: {error.strerror}"
                raise GitFailed(f"{self.folder} {why}") from error
            if not isinstance(error, FileNotFoundError):
                raise
            raise GitFailed("git is not installed, or not on the PATH") from error


def looks_bare(folder: str) -> bool:
    """Whether a folder looks like a bare repository."""
    return all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _output(
    arguments: Sequence[str], ended: ExitedChild | None, limit_s: float, accepted: Sequence[int]
) -> bytes:
    """Return the output of git, or raise the error of its end."""
    if ended is None:
        raise OutOfTime(
            f"git {_command(arguments)} has not ended within {limit_s:g} s, and was stopped; look"
            " for a hook or a filter that waits, or a pipe in the place of a file"
        )
    if ended.code not in accepted:
        raise CommandFailed(_command(arguments), ended.err, ended.code, ended.out)
    return ended.out


def _command(arguments: Sequence[str]) -> str:
    """Return the name of git's command, which settings may stand before."""
    words = iter(arguments)
    return next((word for word in words if word != "-c" or not next(words)), "")


# Small text files of git's: read, whatever stands at their place, and replaced at once.

#: The suffix of a new file until it replaces the old one.
FRESH = ".new"

#: How much a file may have that is read, in bytes.
_MAX_BYTES = 1024 * 1024


def read_small(path: str) -> str:
    """Return what is in a small file, bytes that are no text as surrogates; nothing is waited for.

    Raises:
        FileNotFoundError: it is not there.
        GitFailed: it is no plain file, is too long, or can't be read.
    """
    try:
        return os.fsdecode(read_plain_file(path, _MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from error
    except Refused as error:
        raise GitFailed(str(error)) from error
    except OSError as error:
        raise GitFailed(f"{path} can't be read: {error.strerror}") from error


def is_plain_file(path: str) -> bool:
    """Whether there is a file at a path, and not a pipe, a device or a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_missing(path: str) -> bool:
    """Whether there is nothing, or a file without anything in it; a link or a pipe is neither."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def replace_text(path: str, text: str, mode: int) -> None:
    """Write a file beside its place and rename it, so that git never reads half of one."""
    os.replace(write_beside(path, text, mode), path)


def write_beside(path: str, text: str, mode: int) -> str:
    """Write the file that is to take this place, and return where it is until then.

    A link that has that name is removed, never written through.
    """
    fresh = path + FRESH
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
    return fresh
