"""The pipes between the host and a command that runs. None of these calls blocks."""

from __future__ import annotations

import os
from io import FileIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: One read of a pipe: as much as a pipe holds by default.
_CHUNK_BYTES = 64 * 1024
#: The most that a pipe holds, unless an administrator allows more.
_PIPE_BYTES = 1024 * 1024


class Pipes:
    """The three pipes of a command. It makes all of them, or none.

    Args:
        captures: whether what it prints is for the host; else it prints to where the host does.

    Attributes:
        stdin, stdout, stderr: the ends of the host.
        theirs: the ends of the command, in the same order.
    """

    def __init__(self, *, captures: bool = True) -> None:
        makers = (os.pipe, os.pipe, os.pipe) if captures else (os.pipe, _own_stdout, _own_stderr)
        (stdin, feed), (catch, stdout), (catch_errors, stderr) = _all_of(makers)
        self.theirs = (stdin, stdout, stderr)
        self.stdin, self.stdout, self.stderr = (
            FileIO(feed, "wb"),
            FileIO(catch, "rb"),
            FileIO(catch_errors, "rb"),
        )

    def close_theirs(self) -> None:
        """Close the ends of the command, which has its own copies."""
        _close(*self.theirs)

    def close(self) -> None:
        """Close the ends of the host."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


class InputFeeder:
    """The stdin of a command: written to the pipe as the command reads it."""

    def __init__(self, pipe: FileIO, data: bytes) -> None:
        self.pipe = _not_blocking(pipe)
        self._left = memoryview(data)

    def serve(self) -> bool:
        """Write what fits; return whether there is more to be written."""
        try:
            written = self.pipe.write(self._left)
        except BrokenPipeError:  # the command wants no more of it
            return False
        self._left = self._left[written or 0 :]
        return len(self._left) > 0


class OutputReader:
    """The output of a command: the first bytes are kept, the others are read and discarded.

    Args:
        pipe: where it is read.
        max_bytes: how many are kept; None: none, and all of them only go to `tell`.
        tell: takes the bytes as they come, or None.
    """

    def __init__(
        self, pipe: FileIO, max_bytes: int | None, tell: Callable[[bytes], None] | None = None
    ) -> None:
        self.pipe = _not_blocking(pipe)
        self.kept = bytearray()
        self.is_over = False
        self._max_bytes = max_bytes
        self._tell = tell

    def serve(self) -> bool:
        """Read once; return whether there may be more."""
        chunk: bytes | None = self.pipe.read(_CHUNK_BYTES)
        if chunk is None:  # nothing at the moment
            return True
        self._keep(chunk)
        return len(chunk) > 0

    def read_rest(self) -> None:
        """Read what is in the pipe now, unless it is closed.

        Someone may still write to it, such as a child in another process group. That must not
        hold the host up, so this reads no more than a pipe holds.
        """
        left_bytes = 0 if self.pipe.closed else _PIPE_BYTES
        while left_bytes > 0 and (chunk := self.pipe.read(_CHUNK_BYTES)):
            self._keep(chunk)
            left_bytes -= len(chunk)

    def _keep(self, chunk: bytes) -> None:
        if self._max_bytes is None:
            if self._tell is not None and chunk:
                self._tell(chunk)
            return
        space = self._max_bytes - len(self.kept)
        self.kept += chunk[:space]
        if self._tell is not None and chunk and space > 0:
            self._tell(bytes(chunk[:space]))
        self.is_over |= len(chunk) > space


def _not_blocking(pipe: FileIO) -> FileIO:
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _all_of(makers: Sequence[Callable[[], tuple[int, int]]]) -> list[tuple[int, int]]:
    pipes: list[tuple[int, int]] = []
    try:
        for make in makers:
            pipes.append(make())
    except OSError:
        for pipe in pipes:
            _close(*pipe)
        raise
    return pipes


def _own_stdout() -> tuple[int, int]:
    return _own(1)


def _own_stderr() -> tuple[int, int]:
    return _own(2)


def _own(descriptor: int) -> tuple[int, int]:
    """Return an end where nothing ever comes, and a copy of what this process prints to."""
    nothing, writer = os.pipe()
    os.close(writer)
    try:
        return nothing, os.dup(descriptor)
    except OSError:
        os.close(nothing)
        raise


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
