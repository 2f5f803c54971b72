"""Examining one file: what counts as a line, and as Python."""

import hashlib
from pathlib import Path

import pytest

from ackbus.demo.worker import (
    CHUNK_BYTES,
    MAX_PARSED_BYTES,
    PYTHON_NOT_CHECKED,
    Examination,
    examine,
)


def lines_of(path: Path, data: bytes) -> int:
    """Lines of a file with this content."""
    path.write_bytes(data)
    return examine(str(path)).lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"one two\nthree", 2),
        (b"one two\nthree\n", 2),
        (b"a\r\nbcd e\r\n", 2),
        (b"\xff\xfe bad utf-8 \x80\n", 1),
        (b"x" * CHUNK_BYTES + b"\nword", 2),
        (b"x" * (CHUNK_BYTES - 1) + b"\nword\n", 2),
        (b"x" * (5 * CHUNK_BYTES), 1),
    ],
)
def test_lines_are_counted_and_chunks_may_end_anywhere(
    data: bytes, lines: int, tmp_path: Path
) -> None:
    assert lines_of(tmp_path / "file", data) == lines


def test_checksum_and_size_are_those_of_the_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    path = tmp_path / "file"
    path.write_bytes(data)
    found = examine(str(path))
    assert (found.bytes, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("name", "data", "verdict"),
    [
        ("a.py", b"x = 1\n", "ok"),
        ("a.pyi", b"x: int\n", "ok"),
        ("empty.py", b"", "ok"),
        ("cookie.py", b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "ok"),
        ("escape.py", b"x = '\\d'\n", "ok"),
        ("a.txt", b"def f(:\n", None),
    ],
)
def test_python_without_errors_is_ok_and_other_files_are_not_python(
    name: str, data: bytes, verdict: str | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    assert examine(str(tmp_path / name)).python == verdict


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (b"x = 1\ndef f(:\n", "line 2: "),
        (b"x = '\xff'\n", "utf-8"),
        (b"x = 1\n\0", "null bytes"),
        (b"# coding: no-such\n", "no-such"),
        (b"(" * 10_000, "nested"),
        (b"-" * 100_000 + b"1", "nested"),
    ],
)
def test_python_errors_are_named(data: bytes, remark: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_bytes(data)
    assert remark in str(examine(str(path)).python)


def test_large_python_file_is_counted_but_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_bytes(b"(\n" * (MAX_PARSED_BYTES // 2 + 1))
    found = examine(str(path))
    assert (found.lines, found.python) == (MAX_PARSED_BYTES // 2 + 1, PYTHON_NOT_CHECKED)


def test_unreadable_file_raises_and_empty_file_has_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        examine(str(tmp_path / "missing"))
    (tmp_path / "empty").touch()
    nothing = Examination(0, 0, hashlib.sha256(b"").hexdigest(), None)
    assert examine(str(tmp_path / "empty")) == nothing
