"""The comparison of two revisions runs, and gives each median with its interval."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMPARE = Path(__file__).with_name("compare.py")


@pytest.mark.slow
def test_a_revision_is_compared_with_itself() -> None:
    command = [sys.executable, str(COMPARE), sys.executable, "ack", "claim a job", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    number = r"\d+\.\d{3}"
    lines = [
        re.fullmatch(rf"(.*\S) +({number}) +\[({number}), ({number})\]", line)
        for line in done.stdout.splitlines()
    ]
    assert [line and line[1] for line in lines] == ["ack", "claim a job"]
    assert all(line and float(line[3]) <= float(line[2]) <= float(line[4]) for line in lines)
