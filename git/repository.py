"""Git, as a process with fixed arguments. Publishing and reading never run it.

Its output here depends on no setting of a user, and on no language.
"""

from __future__ import annotations

import os
import subprocess

from ..schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

#: Names as they are, every commit in full, complaints in English, and no lock taken that git
#: could do without.
_SETTINGS = (
    *("-c", "core.quotePath=false"),
    *("-c", "log.showRoot=true"),
    *("-c", "log.follow=false"),
)
_ENVIRONMENT = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


class GitFailed(AckbusError):
    """Git is not installed, has no repository here, or failed."""


class CommandFailed(GitFailed):
    """Git ended with an error.

    Attributes:
        reason: the first line of what it said.
    """

    def __init__(self, command: str, said: bytes) -> None:
        first = said.decode("utf-8", "replace").strip().partition("\n")[0]
        self.reason = first.removeprefix("fatal: ")
        super().__init__(f"git {command} failed: {self.reason}")


class Repository:
    """The repository that a folder is in.

    Args:
        folder: where git is run.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run git and return its output.

        Raises:
            GitFailed: git is not installed.
            CommandFailed: it ended with an error.
        """
        with self._start(arguments, subprocess.PIPE, subprocess.PIPE) as process:
            out, err = process.communicate(stdin)
        if process.returncode:
            raise CommandFailed(arguments[0], err)
        return out

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

    def _start(
        self, arguments: tuple[str, ...], stdin: int, stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *_SETTINGS, *arguments],
                cwd=self.folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | _ENVIRONMENT,
            )
        except FileNotFoundError as error:
            if error.filename == self.folder:
                raise GitFailed(f"{self.folder} is not there") from error
            raise GitFailed("git is not installed, or not on the PATH") from error
