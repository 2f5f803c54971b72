"""The answer to a request: how it is given is said where the request is shown, and true."""

import re
import shlex

import pytest

from ackbus import Bus, check

from .conftest import RunBus

HOW = (
    "Answer it by 'bus publish review.done --from ann --to lead --reply-to 1 --file -'"
    "; after a failure by review.failed."
)


@pytest.fixture(autouse=True)
def agents(bus: Bus) -> None:
    for name in ("ann", "lead", "me"):
        bus.heartbeats.beat(name)


@pytest.mark.parametrize("body", ["Please look", "Please\nlook", None])
def test_poll_says_how_a_request_is_answered(run_bus: RunBus, bus: Bus, body: str | None) -> None:
    """Issue 19, 7: below its body; and the command does it."""
    sent = bus.publish("review.request", body, from_agent="lead", to_agent="ann")
    bus.publish("note", "x", from_agent="lead", to_agent="ann")
    lines = run_bus("poll", "ann").out.splitlines()
    assert [line for line in lines if line.startswith("Answer")] == [HOW]
    assert lines[-2] == HOW
    assert "Answer" not in run_bus("poll", "ann", "--json").out
    words = shlex.split(HOW.split("'")[1])
    assert run_bus(*words[1:], stdin="fine").code == 0
    assert (check(bus, sent.id).state, bus.get(3).to_agent) == ("success", "lead")  # type: ignore[union-attr]


def test_show_says_it_to_whom_the_request_is_for(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("review.request", "?", from_agent="lead", to_agent="ann")
    bus.publish("review.request", "?", from_agent="lead")
    bus.publish("note", "?", from_agent="lead")
    shown = [run_bus("show", seq).out for seq in ("1", "2", "3")]
    assert "answer by:    'bus publish review.done --from ann --to lead --reply-to 1" in shown[0]
    assert "answer by:    'bus publish review.done --to lead --reply-to 2" in shown[1]
    assert "answer by" not in shown[2]


def test_hint_names_the_bus_that_an_option_named(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("review.request", "?", from_agent="lead", to_agent="ann")
    told = run_bus("poll", "ann", "--dir", bus.directory).out
    assert f"--file - --dir {shlex.quote(bus.directory)}'" in told


def test_names_of_others_stay_words_of_the_command(run_bus: RunBus, bus: Bus) -> None:
    """Issue 19, 7: a sender's name, or a type, that a shell would take for more than a word."""
    bus.publish("$(touch-x);.request", "?", from_agent="a b; rm -rf .", to_agent="ann")
    told = run_bus("poll", "ann").out.splitlines()[-1]
    command = re.fullmatch(r"Answer it by '(.*)'; after a failure by .*", told)
    assert command is not None
    assert shlex.split(command[1]) == [
        *("bus", "publish", "$(touch-x);.done", "--from", "ann", "--to", "a b; rm -rf ."),
        *("--reply-to", "1", "--file", "-"),
    ]
