"""Git, as a process with fixed arguments. Nothing on the way of a message runs it."""

from __future__ import annotations

import subprocess
import tempfile

from ...schema import AckbusError, NotFound, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO


class GitFailed(AckbusError):
    """Git is not there, or could not do what it was asked."""


class NoRepository(GitFailed):
    """The folder is in no git repository."""


class _Failed(GitFailed):
    """Git ended with an error; `reason` is the first line of what it said."""

    def __init__(self, command: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"git {command} failed: {reason}")


class Repository:
    """The repository that a folder is in.

    Args:
        folder: where git is run.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> bytes:
        """Run git and return what it printed.

        Raises:
            GitFailed: git is not installed, or its exit code is not one of `codes`.
        """
        done = self._start(arguments)
        out, err = done.communicate()
        if done.returncode not in codes:
            raise _Failed(arguments[0], _first_line(err))
        return out

    def lines(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield what it prints line by line; it ends when the caller stops reading.

        Raises:
            GitFailed: git is not installed, or it failed.
        """
        # A file for what git complains of: a pipe that nobody reads meanwhile would stop it.
        with tempfile.TemporaryFile() as err:
            process = self._start(arguments, stderr=err)
            assert process.stdout is not None
            ended = False
            try:
                yield from process.stdout
                ended = True
            finally:
                if not ended:
                    process.kill()
                process.stdout.close()
                process.wait()
            if process.returncode:
                err.seek(0)
                raise _Failed(arguments[0], _first_line(err.read()))

    def check(self) -> None:
        """Make sure that there is a repository.

        Raises:
            GitFailed: git is not installed.
            NoRepository: the folder is in no repository, or git refuses to use it.
        """
        try:
            self.run("rev-parse", "--git-dir")
        except _Failed as error:
            raise NoRepository(f"{self.folder} is in no git repository: {error.reason}") from error

    def check_work_tree(self) -> None:
        """Make sure that there is a repository with files.

        Raises:
            GitFailed, NoRepository: as for `check`.
            Refused: it is a bare repository.
        """
        self.check()
        if self.run("rev-parse", "--is-inside-work-tree").strip() != b"true":
            raise Refused(f"{self.folder} is in a bare repository, which has no files")

    def check_revision(self, revision: str) -> None:
        """Make sure that a revision, or a range of them, is there.

        Raises:
            NotFound: there is no commit yet, or the revision is not known.
        """
        if self._code("rev-parse", "--verify", "--quiet", "HEAD^{commit}") and revision == "HEAD":
            raise NotFound("the repository has no commits yet")
        if self._code("rev-list", "--max-count=0", "--end-of-options", revision, "--"):
            raise NotFound(f"no revision {revision!a} in the repository; see 'git log'")

    def staged(self, path: str) -> list[bytes]:
        """Return what the index has of a path: one content, or those of both sides of a conflict.

        Args:
            path: relative to the root of the repository.

        Raises:
            GitFailed: git can't tell.
        """
        listed = self.run("ls-files", "--stage", "-z", "--", f":(top,literal){path}")
        contents = []
        for entry in listed.split(b"\0")[:-1]:
            _mode, name, stage = entry.partition(b"\t")[0].split()
            if stage != b"1":  # what both sides began from
                contents.append(self.run("cat-file", "blob", name.decode()))
        return contents

    def config(self, name: str) -> str | None:
        """Return a value of the repository's own configuration; None when it is not set."""
        out = self.run("config", "--local", "--get", name, codes=(0, 1))
        return out.decode("utf-8", "surrogateescape").removesuffix("\n") if out else None

    def _code(self, *arguments: str) -> int:
        """Return the exit code of a question."""
        process = self._start(arguments)
        process.communicate()
        return process.returncode

    def _start(
        self, arguments: tuple[str, ...], stderr: int | IO[bytes] = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        command = ["git", "-c", "core.quotePath=false", *arguments]
        try:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        except FileNotFoundError as error:
            if error.filename == self.folder:
                raise NoRepository(f"{self.folder} is not there") from error
            raise GitFailed("git is not installed, or not on the PATH") from error


def _first_line(err: bytes) -> str:
    return err.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
