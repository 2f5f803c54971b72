"""The captures of real programs: what the model of each was sent."""

import json
from typing import Any

import pytest

from .capturing import FOLDER, SHOWN, faults_of

CAPTURES = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


def test_every_program_has_one() -> None:
    assert {each["program"] for each in CAPTURES} == set(SHOWN)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda each: each["program"])
def test_model_is_sent_the_message_the_next_step_and_the_notice(capture: dict[str, Any]) -> None:
    """Issue 19, item 1: whichever form the program shows."""
    assert faults_of(capture) == []
    assert capture["version"]
