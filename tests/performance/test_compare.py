"""The comparison of two revisions runs, and gives each median with its interval."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMPARISONS = {
    "compare.py": ["ack", "claim a job"],
    "compare_commands.py": ["hook tool claude", "pre-commit", "pre-push", "search"],
}


@pytest.mark.slow
@pytest.mark.parametrize("script", COMPARISONS)
def test_a_revision_is_compared_with_itself(script: str) -> None:
    names = COMPARISONS[script]
    compare = str(Path(__file__).with_name(script))
    command = [sys.executable, compare, sys.executable, *names, "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    number = r"\d+\.\d{3}"
    lines = [
        re.fullmatch(rf"(.*\S) +({number}) +\[({number}), ({number})\]", line)
        for line in done.stdout.splitlines()
    ]
    assert [line and line[1] for line in lines] == names
    assert all(line and float(line[3]) <= float(line[2]) <= float(line[4]) for line in lines)
