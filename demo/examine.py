"""The examination of one file, the work of the demo. It knows nothing of the bus."""

from __future__ import annotations

import ast
import hashlib
import warnings
from dataclasses import dataclass

#: How much of a file is in memory at a time, in bytes.
CHUNK_BYTES = 1 << 18

#: The largest Python file whose syntax is checked, in bytes: the parser takes two or three seconds
#: for a megabyte, and memory to match.
MAX_PARSED_BYTES = 1 << 18

#: The value of `Examination.python` for a file without syntax errors.
PYTHON_OK = "ok"

#: Its value for a file larger than `MAX_PARSED_BYTES`.
PYTHON_NOT_CHECKED = f"not checked: larger than {MAX_PARSED_BYTES:,} bytes"

_PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")


@dataclass(frozen=True, slots=True)
class Examination:
    """The facts about a file after reading it.

    Attributes:
        bytes: its size, as it was read.
        lines: how many lines it has; a last one without a newline counts.
        sha256: the checksum of its bytes, as 64 hex digits.
        python: None for a file that is not Python; else `ok`, what is wrong with the syntax, or
            that it was not checked.
    """

    bytes: int
    lines: int
    sha256: str
    python: str | None


def examine(path: str) -> Examination:
    """Read a file to its end and return the facts. Memory does not grow with the file.

    Raises:
        OSError: the file can't be read.
    """
    digest = hashlib.sha256()
    source = b""
    size = newlines = 0
    last = b"\n"
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            source = source or chunk
            size += len(chunk)
            newlines += chunk.count(b"\n")
            last = chunk[-1:]
    python = None
    if path.endswith(_PYTHON_SUFFIXES):
        python = PYTHON_NOT_CHECKED if size > len(source) else _python_syntax(source)
    return Examination(size, newlines + (last != b"\n"), digest.hexdigest(), python)


def _python_syntax(source: bytes) -> str:
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
