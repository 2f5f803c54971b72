"""The answer to a request: how it is given is said where the request is shown, and true."""

import json
import re
import shlex

import pytest

from ackbus import Bus

from .conftest import RunBus
from .test_hooks import Agent

#: Requests are answered more than once here.
pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.AnsweredAgainWarning")

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
    assert (bus.answer(sent.id).state, bus.get(3).to_agent) == ("success", "lead")  # type: ignore[union-attr]


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


# a request that was answered --------------------------------------------------------------------


def answered(bus: Bus, type: str = "review.done") -> None:
    """A request to the agent `me`, and its answer, which is the second message."""
    asked = bus.publish("review.request", "a.py?", from_agent="lead", to_agent="me")
    bus.publish(type, "fine", from_agent="me", to_agent="lead", in_reply_to=asked.id)


@pytest.mark.parametrize("type", ["review.done", "review.failed", "opinion"])
def test_every_look_says_that_a_request_was_answered(run_bus: RunBus, bus: Bus, type: str) -> None:
    """Issue 32, 6: to its agent, to its hooks, and to the next session under its name."""
    answered(bus, type)
    looks = [run_bus("poll", "me").out, run_bus("inbox", "me").out]
    looks += [Agent(run_bus).hears(event) for event in ("start", "stop", "start")]
    for look in looks:
        assert "you answered this as [2]" in look
        assert "Answer it by" not in look
    assert "answered as:  2" in run_bus("show", "1").out


@pytest.mark.parametrize(
    "other",
    [
        {"type": "review.progress", "from_agent": "me"},  # news is no answer
        {"type": "review.done", "from_agent": "ann"},  # nor are the words of others
        {"type": "opinion", "from_agent": "me", "to_agent": "ann"},  # and words to others
    ],
)
def test_what_is_no_answer_of_its_agent_leaves_a_request_open(
    run_bus: RunBus, bus: Bus, other: dict[str, str]
) -> None:
    asked = bus.publish("review.request", "?", from_agent="lead", to_agent="me")
    bus.publish(payload="x", in_reply_to=asked.id, **({"to_agent": "lead"} | other))
    assert "Answer it by" in run_bus("poll", "me").out


def test_a_second_answer_is_warned_of_and_check_shows_both(run_bus: RunBus, bus: Bus) -> None:
    """Issue 32, 6: a repeat is none, and news comes at any time."""
    answered(bus)
    reply = ("--from", "me", "--to", "lead", "--reply-to", "1")
    second = run_bus("publish", "review.done", "again", *reply, "--id", "m-2")
    assert second.code == 0
    assert second.err == "bus: warning: message 1 has an answer of 'me' already, 2\n"
    assert run_bus("publish", "review.done", "again", *reply, "--id", "m-2").err == ""
    assert run_bus("publish", "review.progress", "more", *reply).err == ""
    assert "answer [2] success type=review.done from=me\nanswer [3] " in run_bus("check", "1").out
    record = json.loads(run_bus("check", "1", "--json").out)
    assert [each["seq"] for each in record["answers"]] == [2, 3]


def test_check_lists_an_answer_in_other_words_beside_the_first(run_bus: RunBus, bus: Bus) -> None:
    answered(bus, "opinion")
    bus.publish("review.done", "x", from_agent="me", to_agent="lead", in_reply_to=bus.get(1).id)  # type: ignore[union-attr]
    record = json.loads(run_bus("check", "1", "--json").out)
    assert [each["state"] for each in record["answers"]] == ["answered", "success"]
