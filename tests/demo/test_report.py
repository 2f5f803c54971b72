"""The parts of the report: text that fits, commands that can be pasted, what stays."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus.cli.demo.file_table import fit
from ackbus.cli.demo.next_steps import next_steps, this_command
from ackbus.cli.demo.text import counted, print_prose, shortened
from ackbus.demo.place import Place, choose_place

COLUMNS = {
    "file": ["app/schema/database.py"],
    "bytes": ["14,940"],
    "lines": ["  384"],
    "words": ["1,605"],
    "longest line": ["         100"],
    "Python": ["ok"],
    "by": ["worker-3"],
}


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1000, "1,000 files")]
)
def test_one_is_singular(count: int, said: str) -> None:
    assert counted(count, "file") == said


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (13, "a/folder/b.py"),
        (12, "…/b.py"),
        (6, "…/b.py"),
        (5, "…b.py"),
        (4, "….py"),
    ],
)
def test_path_is_shortened_to_its_last_whole_parts(columns: int, shown: str) -> None:
    assert shortened("a/folder/b.py", columns) == shown


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (76, list(COLUMNS)),
        (75, ["file", "bytes", "lines", "words", "Python", "by"]),
        (56, ["file", "bytes", "lines", "Python", "by"]),
        (40, ["file", "bytes", "Python"]),
        (20, ["file", "bytes"]),
    ],
)
def test_narrow_table_drops_the_least_important_columns(width: int, headings: list[str]) -> None:
    fitting = fit(COLUMNS, width)
    assert list(fitting) == headings
    widths = [max(map(len, (heading, *cells))) for heading, cells in fitting.items()]
    assert sum(widths) + 2 * (len(widths) - 1) <= width


def test_prose_in_a_pipe_is_not_broken(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_prose("word " * 100)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.count(b"\n") == 1


def command(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    return path


@pytest.mark.parametrize(
    ("where", "typed"),
    [
        ("project/.venv/bin/bus", ".venv/bin/bus"),
        ("project/bus", "./bus"),
        ("else where/bus", "{tmp_path}/else where/bus"),
    ],
)
@pytest.mark.parametrize("another_on_path", [False, True])
def test_command_that_its_name_does_not_find_is_named_by_its_path(
    where: str,
    typed: str,
    another_on_path: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = command(tmp_path / where)
    other = command(tmp_path / "other/bus") if another_on_path else tmp_path / "none/bus"
    (tmp_path / "project").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(sys, "argv", [str(running)])
    monkeypatch.setenv("PATH", str(other.parent))
    assert this_command() == typed.format(tmp_path=tmp_path)
    monkeypatch.setenv("PATH", str(running.parent))
    assert this_command() == "bus"


def test_next_steps_are_quoted_for_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that gets the line finds the program and the directory, with the blanks in both."""
    program = command(tmp_path / "my tools/bus")
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[-1])\n")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", os.defpath)
    assert shutil.which("bus") is None
    for step, _ in next_steps("/a b/$HOME", None):
        shell = subprocess.run(step, shell=True, capture_output=True, check=True)
        assert shell.stdout == b"/a b/$HOME\n"


def test_only_what_the_demo_made_may_be_removed(tmp_path: Path) -> None:
    assert choose_place(str(tmp_path)) == Place(str(tmp_path), None)
    assert choose_place(str(tmp_path)).remarks == [f"the bus stays in {tmp_path}"]
    new = str(tmp_path / "new")
    assert choose_place(new) == Place(new, new)
    assert "may be removed" in choose_place(new).remarks[-1]


def test_fresh_directory_is_removed_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = choose_place(None)
    assert place.made == str(Path(place.directory).parent)
    assert Path(place.made).parent == tmp_path
