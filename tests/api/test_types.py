"""The types of the package, as a user's programs meet them, for both type checkers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent


def lines_with_errors(checker: str, program: str, folder: Path) -> set[int]:
    """Check a copy of a program as strictly as the checker can; return the lines of its errors."""
    copy = folder / program
    copy.write_text((HERE / program).read_text("utf-8"), "utf-8")
    if checker == "mypy":
        cache = ["--cache-dir", str(folder / "cache")]
        line = [TOOLS / "mypy", "--strict", "--python-executable", sys.executable, *cache, copy]
    else:
        (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
        line = [TOOLS / "basedpyright", "--outputjson", "--pythonpath", sys.executable]
        line += ["--project", folder]
    done = subprocess.run(line, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    if checker == "mypy":
        assert "1 source file" in done.stdout
        return {int(number) for number in re.findall(r"\.py:(\d+): error", done.stdout)}
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    found = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1 for each in found}


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_right_program_has_no_errors(checker: str, tmp_path: Path) -> None:
    assert lines_with_errors(checker, "right.py", tmp_path) == set()


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_each_mistake_is_found(checker: str, tmp_path: Path) -> None:
    lines = (HERE / "mistakes.py").read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(marked) > 35
    assert lines_with_errors(checker, "mistakes.py", tmp_path) == marked


def test_the_right_program_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "right.py", tmp_path / "bus"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "5 sent",
            "5 read",
            "1 parked",
            "1 completed",
            "1 queued again",
            "True held",
            "1 found",
            "['2', 'late', 'LimitReached']",
            "['True success', 'True success', 'three!', 'ask.request']",
        ],
    ), done.stderr
