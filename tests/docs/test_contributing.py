"""The change that CONTRIBUTING.md makes step by step can be made, as it stands there."""

import re
import subprocess

import pytest

from .test_documents import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DIFFS = re.findall(r"^```diff\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_is_a_change_to_follow() -> None:
    changed = set(re.findall(r"^\+\+\+ b/(.+)$", "".join(DIFFS), re.MULTILINE))
    folders = {file.partition("/")[0] for file in changed}
    assert folders == {"tests", "workers", "cli", "docs"}


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.split()[1])
def test_every_diff_fits_the_sources(diff: str) -> None:
    applied = subprocess.run(
        ["git", "apply", "--check", "-"],
        input=diff,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr


def test_the_tests_it_names_are_there() -> None:
    assert "def test_command_is_told_about_its_job(" in _text("tests/workers/test_raw_contract.py")
    (other,) = re.findall(r"`(test_\w+)`", PAGE)
    assert f"def {other}(" in _text("tests/cli/test_inboxes.py")


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")
