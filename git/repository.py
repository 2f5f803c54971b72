"""Git, as a process with fixed arguments. Publishing and reading never run it.

Its output here depends on no setting of a user, and on no language.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress

from ..schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

#: Names as they are, every commit in full, complaints in English, and no lock taken that git
#: could do without.
_SETTINGS = (
    *("-c", "core.quotePath=false"),
    *("-c", "log.showRoot=true"),
    *("-c", "log.follow=false"),
)
_ENVIRONMENT = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}

#: The whole id of an object, by either of git's digests.
_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

#: How long a git that has reached its time limit may take to remove its locks, in seconds.
_ENDING_S = 5.0


class GitFailed(AckbusError):
    """Git is not installed, has no repository here, or failed."""


class CommandFailed(GitFailed):
    """Git ended with an error.

    Attributes:
        reason: the first line of what it said.
        code: its exit code; of a signal that ended it, the negative number.
    """

    def __init__(self, command: str, said: bytes, code: int = 1) -> None:
        self.code = code
        first = said.decode("utf-8", "replace").strip().partition("\n")[0]
        self.reason = first.removeprefix("fatal: ")
        super().__init__(f"git {command} failed: {self.reason}")


class OutOfTime(GitFailed):
    """Git, or a hook or a program that it ran, reached its time limit, and was ended."""


class Repository:
    """The repository that a folder is in.

    Args:
        folder: where git is run.
        environment: variables of git beside those of this process; None takes one away.
    """

    def __init__(self, folder: str, environment: Mapping[str, str | None] | None = None) -> None:
        self.folder = folder
        self._environment = environment or {}

    def run(self, *arguments: str, stdin: bytes = b"", limit_s: float | None = None) -> bytes:
        """Run git and return its output.

        Args:
            arguments: of git.
            stdin: what it may read.
            limit_s: after how many seconds it is ended, with all that it started; None is never.

        Raises:
            GitFailed: git is not installed.
            CommandFailed: it ended with an error.
            OutOfTime: it reached the limit.
        """
        if limit_s is not None:
            return self._run_limited(arguments, stdin, limit_s)
        with self._start(arguments, subprocess.PIPE, subprocess.PIPE) as process:
            out, err = process.communicate(stdin)
        if process.returncode:
            raise CommandFailed(arguments[0], err, process.returncode)
        return out

    def _run_limited(self, arguments: tuple[str, ...], stdin: bytes, limit_s: float) -> bytes:
        import tempfile

        # Files instead of pipes: what a hook leaves in the background would hold a pipe open.
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.seek(0)
            process = self._start(arguments, given, err, stdout=out, is_leader=True)
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise OutOfTime(
                    f"git {arguments[0]} has not ended within {limit_s:g} s, and was stopped;"
                    " look for a hook or a filter that waits"
                ) from None
            finally:
                if process.poll() is None:
                    _end_group(process)
            err.seek(0)
            if process.returncode:
                raise CommandFailed(arguments[0], err.read(), process.returncode)
            out.seek(0)
            return out.read()

    def lines(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield its output line by line; git ends when the caller stops reading.

        Raises:
            GitFailed: git is not installed.
            CommandFailed: it ended with an error.
        """
        import tempfile

        # A file for git's errors: an unread pipe would block it.
        with (
            tempfile.TemporaryFile() as err,
            self._start(arguments, subprocess.DEVNULL, err) as process,
        ):
            assert process.stdout is not None
            try:
                yield from process.stdout
            except GeneratorExit:
                process.kill()
                raise
            if process.wait():
                err.seek(0)
                raise CommandFailed(arguments[0], err.read())

    def describe(self, *questions: str) -> list[str]:
        """Return git's answers about the repository, a line for each question to `rev-parse`.

        Raises:
            GitFailed: git is not installed, there is no repository, or git refuses to use it.
        """
        try:
            return os.fsdecode(self.run("rev-parse", *questions)).splitlines()
        except CommandFailed as error:
            raise GitFailed(f"{self.folder} is in no git repository: {error.reason}") from error

    def commit(self, name: str) -> str | None:
        """Return the id of a commit, or None when there is none of this name."""
        try:
            found = self.run("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
        except CommandFailed:
            return None
        return found.decode().strip()

    def commits(self, names: Sequence[str]) -> list[str | None]:
        """Return the ids of commits, in one process; None for each name that is of none.

        No name is taken for an option, and no range for a commit.
        """
        plain = [name for name in names if "\n" not in name and "\0" not in name]
        asked = "".join(f"{name}^{{commit}}\n" for name in plain)
        try:
            said = self.run(
                *("cat-file", "--batch-check=%(objectname)"),
                stdin=asked.encode("utf-8", "surrogateescape"),
            )
        except CommandFailed:  # one name ended it, such as `main@{upstream}` where there is none
            return [None] if len(names) == 1 else [self.commits([name])[0] for name in names]
        found = dict(zip(plain, said.splitlines(), strict=True))
        ids = (found.get(name, b"").decode("utf-8", "replace") for name in names)
        return [id if _ID.fullmatch(id) else None for id in ids]

    def _start(
        self,
        arguments: tuple[str, ...],
        stdin: int | IO[bytes],
        stderr: int | IO[bytes],
        stdout: int | IO[bytes] = subprocess.PIPE,
        is_leader: bool = False,
    ) -> subprocess.Popen[bytes]:
        environment: dict[str, str | None] = {**os.environ, **self._environment, **_ENVIRONMENT}
        try:
            return subprocess.Popen(
                ["git", *_SETTINGS, *arguments],
                cwd=self.folder,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={key: value for key, value in environment.items() if value is not None},
                start_new_session=is_leader,
            )
        except FileNotFoundError as error:
            if error.filename == self.folder:
                raise GitFailed(f"{self.folder} is not there") from error
            raise GitFailed("git is not installed, or not on the PATH") from error


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a leader and its group: first by SIGTERM, at which git removes its locks."""
    import signal

    for last in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, last)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
