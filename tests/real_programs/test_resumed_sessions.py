"""Issue 19, item 3: a session that a real program resumes is the agent that it was."""

import json
import re
import subprocess

import pytest

from ackbus import Bus
from ackbus.schema.process_table import process
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..conftest import RunBus
from .person import PROMPT, Person
from .scripted_model import Call, ScriptedModel

#: How programs go on with their last session. Copilot takes no folder for trusted then, and runs no
#: hooks; sessions of opencode are its server's.
RESUMES = {
    "claude": ["claude", "-c", "-p", PROMPT, "--allowedTools", "mcp__ackbus"],
    "codex": [
        *("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
        *("resume", "--last", PROMPT),
    ],
    "gemini": ["gemini", "--yolo", "--resume", "latest", "--prompt", PROMPT],
}


@pytest.fixture
def call() -> Call:
    return Call("bus_status", {})


def test_resumed_session_is_told_the_name_that_it_had(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    """Though the first name is free by then."""
    if name not in RESUMES:
        pytest.skip("it was not tried")
    assert run_bus("setup", name, "--agent", "me").code == 0
    names = SessionNames.of(bus)

    def told_by(line: list[str]) -> set[str]:
        model.heard.clear()
        person.run(line)
        return set(re.findall(r"You are the agent (\S+) here\.", json.dumps(model.heard)))

    with subprocess.Popen(["sleep", "1000"]) as first:
        names.take("me", str(process(first.pid)))
        assert told_by(person.driven.turn) == {"me-2"}
        first.kill()
    before = names.named("me-2")
    assert told_by(RESUMES[name]) == {"me-2"}
    after = names.named("me-2")
    assert before is not None
    assert after is not None
    assert (after.id, after.process == before.process) == (before.id, False)
