"""The examination of one file, the work of the demo. It knows nothing of the bus."""

from __future__ import annotations

import ast
import hashlib
import warnings
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: How much of a file is in memory at a time, in bytes.
CHUNK_BYTES = 1 << 18

#: The largest Python file whose syntax is checked, in bytes. The parser takes two or three seconds
#: for a megabyte, in which the lease can't be renewed; this much is parsed well within one.
MAX_PARSED_BYTES = 1 << 18

#: What `Examination.python` says of a file without syntax errors.
PYTHON_OK = "ok"

#: What it says of one that is larger than that.
PYTHON_NOT_CHECKED = f"not checked: larger than {MAX_PARSED_BYTES:,} bytes"

_PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")


@dataclass(frozen=True, slots=True)
class Examination:
    """The facts about a file after reading it.

    Attributes:
        bytes: its size, as it was read.
        lines: how many lines it has; a last one without a newline counts.
        words: how many runs of bytes without ASCII whitespace.
        longest_line_bytes: the length of the longest line, without its line ending.
        sha256: the checksum of its bytes, as 64 hex digits.
        python: None for a file that is not Python; else `ok`, what is wrong with the syntax, or
            that it was not checked.
    """

    bytes: int
    lines: int
    words: int
    longest_line_bytes: int
    sha256: str
    python: str | None


def examine(path: str, tick: Callable[[int], object] = lambda done_bytes: None) -> Examination:
    """Read a file to its end and return the facts. Memory does not grow with the file.

    Args:
        path: the file.
        tick: called after each chunk with the number of bytes read so far.

    Raises:
        OSError: the file can't be read.
    """
    digest, text = hashlib.sha256(), _Text()
    source: list[bytes] | None = [] if path.endswith(_PYTHON_SUFFIXES) else None
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            text.feed(chunk)
            if source is not None and text.bytes <= MAX_PARSED_BYTES:
                source.append(chunk)
            tick(text.bytes)
    python = None if source is None else _python_syntax(b"".join(source), text.bytes)
    longest = max(text.longest_line, text.open_line)
    lines = text.newlines + (text.open_line > 0)
    return Examination(text.bytes, lines, text.words, longest, digest.hexdigest(), python)


class _Text:
    """Counts lines and words in chunks that may end anywhere."""

    __slots__ = ("_last", "bytes", "longest_line", "newlines", "open_line", "words")

    def __init__(self) -> None:
        self.bytes = self.newlines = self.words = self.longest_line = 0
        #: The length of the line that has no newline yet.
        self.open_line = 0
        self._last = b""

    def feed(self, chunk: bytes) -> None:
        """Count one more chunk, which is not empty."""
        self.words += len(chunk.split())
        if self._last and not self._last.isspace() and not chunk[:1].isspace():
            self.words -= 1  # the chunks' border runs through a word, which was counted twice
        first, *others = chunk.split(b"\n")
        if others:
            before_newline = first[-1:] or self._last
            self._end_line(self.open_line + len(first) - (before_newline == b"\r"))
            for line in others[:-1]:
                self._end_line(len(line) - line.endswith(b"\r"))
            self.open_line = len(others[-1])
        else:
            self.open_line += len(first)
        self.bytes += len(chunk)
        self._last = chunk[-1:]

    def _end_line(self, length: int) -> None:
        self.newlines += 1
        if length > self.longest_line:
            self.longest_line = length


def _python_syntax(source: bytes, size: int) -> str:
    if size > MAX_PARSED_BYTES:
        return PYTHON_NOT_CHECKED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings: not our business
            compile(source, "<file>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else error.msg
    except ValueError as error:
        return str(error)
    except (RecursionError, MemoryError):
        return "too deeply nested to be checked"
    return PYTHON_OK
