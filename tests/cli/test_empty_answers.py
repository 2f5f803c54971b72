"""Answers on a terminal where there is nothing to show."""

from collections.abc import Callable

import pytest

from ackbus import Bus

from ..conftest import RunBus

pytestmark = pytest.mark.slow

COMMANDS = (
    *("task list", "task list --ready", "task list --all --worker w", "task settle"),
    *("queue list", "job list", "dead list", "poll --agent a", "lease list"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_answer_on_a_terminal_says_what_is_empty(
    bus: Bus, on_terminal: Callable[..., str], run_bus: RunBus, command: str
) -> None:
    """One line, on stderr; programs get an empty stdout and exit code 4, and nothing more."""
    words = command.split()
    shown = on_terminal(*words)
    assert shown.startswith("bus: ")
    assert shown.count("\n") == 1
    assert "nothing found" in shown
    done = run_bus(*words)
    assert (done.code, done.out) == (4, "")
    assert on_terminal(*words, "--json").replace("\r", "").splitlines() in (
        [],
        shown.replace("\r", "").splitlines(),
    )
