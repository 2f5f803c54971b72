"""The captures of real programs: what the model of each was sent."""

from pathlib import Path
from typing import Any

import pytest

from .capturing import SHOWN, changes_of, faults_of, known_captures

CAPTURES = known_captures()


def test_every_program_has_one() -> None:
    assert {each["program"] for each in CAPTURES} == set(SHOWN)


@pytest.mark.parametrize(
    "capture",
    CAPTURES,
    ids=lambda each: "-".join([each["program"], each["version"], each["model"]]),
)
def test_model_is_sent_the_message_the_next_step_and_the_notice(capture: dict[str, Any]) -> None:
    """Issue 19, item 1: whichever form the program shows."""
    assert faults_of(capture) == []
    assert capture["version"]


def test_version_that_changes_something_is_reported() -> None:
    """Issue 32, item 3: by what is known of the newest version before it."""
    (known,) = [
        each
        for each in CAPTURES
        if (each["program"], each["version"], each["model"]) == ("codex", "0.171.0", "default")
    ]
    assert known["deferred"]
    newer = {**known, "version": "0.200.0"}
    assert changes_of(newer, CAPTURES) == []
    assert changes_of({**newer, "deferred": False}, CAPTURES) == [
        "deferred was True in 0.171.0, and is False"
    ]
    assert changes_of({**newer, "model": "other"}, CAPTURES) == ["nothing is known of it"]


def row_of(capture: dict[str, Any]) -> str:
    """The line of the document that says what a version does."""
    tool = f"`{capture['named']}`" + (", deferred" if capture["deferred"] else "")
    roles = (", ".join(capture["hooks"][hook]) for hook in ("start", "tool", "stop"))
    model = "its own" if capture["model"] == "default" else "the tests'"
    cells = (capture["program"], capture["version"], model, tool, *roles)
    return f"| {' | '.join(cells)} |"


def test_document_says_what_each_version_does() -> None:
    """Issue 32, item 3: a table of what was sent, and nothing else."""
    document = Path(__file__).parents[2] / "docs" / "how-to" / "set-up-agents.md"
    rows = [
        line
        for line in document.read_text().splitlines()
        if "bus_inbox` |" in line or "deferred |" in line
    ]
    assert [row for row in rows if "role at the start" not in row] == [*map(row_of, CAPTURES)]
