"""Files of megabytes, as programs keep their histories in: setup passes over them a few times."""

import json
from pathlib import Path
from typing import Any

import pytest

from ackbus.setup import json_edits
from ackbus.setup.files import diff_of

from .test_setup_files import apply, installation, root

__all__ = ["root"]

#: How often a text may be passed over by one change of it, at most.
PASSES = 40


@pytest.mark.parametrize("indent", [None, 2])
def test_long_file_is_passed_over_a_few_times(
    indent: int | None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 32, item 12: `--remove` of 6 MB took 38 s; the work is counted, not the time."""
    path = root.parent / "home" / ".claude.json"
    history = [{"display": "some text " * 8, "pasted": {}}] * 20
    projects = {f"/home/me/{number}": {"history": history} for number in range(50)}
    path.write_text(json.dumps({"projects": projects, "starts": 3}, indent=indent))
    before = path.read_text()
    passed = 0
    pass_over = json_edits._pass_over

    def counting(text: str, at: int) -> tuple[Any, int]:
        nonlocal passed
        value, end = pass_over(text, at)
        passed += end - at
        return value, end

    monkeypatch.setattr(json_edits, "_pass_over", counting)
    json_edits.parse.cache_clear()
    for change in (
        installation("claude", root, scope="local").additions,
        installation("claude", root, scope="local").removals,
    ):
        passed = 0
        apply(change())
        assert passed < PASSES * len(before)
    assert path.read_text() == before


def test_diff_of_a_long_text_has_the_numbers_of_its_lines() -> None:
    lines = [str(number) for number in range(100_000)]
    before = "\n".join(lines)
    lines[70_000:70_001] = ["new", "newer"]
    assert diff_of(before, "\n".join(lines), "a", "b") == [
        "--- a",
        "+++ b",
        "@@ -69998,7 +69998,8 @@",
        *(f" {number}" for number in (69_997, 69_998, 69_999)),
        "-70000",
        "+new",
        "+newer",
        *(f" {number}" for number in (70_001, 70_002, 70_003)),
    ]


@pytest.mark.parametrize(
    ("before", "after"), [("", "a\n"), ("a\n", ""), ("a\na\n", "a\na\na\n"), ("a\nb", "b\na")]
)
def test_diff_of_short_texts_is_the_usual_one(before: str, after: str) -> None:
    import difflib

    usual = difflib.unified_diff(before.splitlines(), after.splitlines(), "a", "b", lineterm="")
    assert diff_of(before, after, "a", "b") == [*usual]
