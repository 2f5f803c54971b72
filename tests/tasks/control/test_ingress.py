"""The way in: what is answered at once, what becomes a request, and how urgent that is."""

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput
from ackbus.tasks.control.ingress import USAGE, Ingress, parse_prompt, priority_of_prompt
from ackbus.tasks.control.requests import Requests

from .conftest import Told


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        *[("status of my job", "interactive"), ("x" * 1_300, "background")],
        *[("refactor everything", "background"), ("fix typo", "normal"), ("", "normal")],
        *[("x" * 1_200, "normal"), ("Where is it?", "interactive"), ("phase 2", "background")],
        *[("the statusbar", "normal"), ("check on " + "x" * 1_300, "interactive")],
    ],
)
def test_u_86_words_and_length_decide_how_urgent_a_request_is(text: str, priority: str) -> None:
    """U-86: words for the state of things before words for deep work and length."""
    assert priority_of_prompt(text) == priority


@pytest.mark.parametrize(
    ("text", "prompt", "is_forced"),
    [
        *[("/ask_remote_buddy fix it", "fix it", True), ("/ASK_remote_buddy: fix", "fix", True)],
        *[("/ask_remote_buddy", "", True), (" hello ", "hello", False)],
    ],
)
def test_u_85_the_command_is_no_part_of_what_is_asked(
    text: str, prompt: str, is_forced: bool
) -> None:
    """U-85: whatever its case."""
    found = parse_prompt(text)
    assert (found.prompt, found.is_forced) == (prompt, is_forced)


def test_u_85_plain_words_are_answered_here(bus: Bus, requests: Requests, told: Told) -> None:
    """U-85: nothing is enqueued, and both sides of the talk are in the session."""
    for text in ("hello", "status of my job"):
        *_, last = Ingress(bus, told).take({"text": text, "sessionId": "s1"})
        assert (last["type"], last["message"]) == ("complete", "Handled locally")
    assert [type for _, type, _ in told.events] == ["message", "assistant_message"] * 2
    assert "0 requests wait" in told.events[-1][2]["text"]
    assert requests.entries.list() == []


@pytest.mark.parametrize("text", ["/ask_remote_buddy hello", "fix the parser", "x" * 121])
def test_u_85_work_and_what_is_forced_become_requests(
    bus: Bus, requests: Requests, text: str
) -> None:
    """U-85: the last event has the id."""
    first, last = Ingress(bus).take({"text": text})
    assert (first["type"], last["type"]) == ("status", "complete")
    (entry,) = requests.entries.list()
    assert last["data"]["requestId"] == entry.id
    assert (entry.session, entry.text("prompt")) == ("dev", parse_prompt(text).prompt)


def test_u_85_a_command_without_a_request_is_told_how_to_use_it(bus: Bus, told: Told) -> None:
    """U-85: as a local answer."""
    *_, last = Ingress(bus, told).take({"text": "/ask_remote_buddy  "})
    assert last["data"]["mode"] == "local_usage_hint"
    assert told.events[-1][2] == {"text": USAGE}


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": " \n"}, {"text": 7}])
def test_u_85_a_message_without_text_is_refused(bus: Bus, body: dict[str, object]) -> None:
    """U-85: before anything is stored."""
    with pytest.raises(InvalidInput, match="text is required"):
        Ingress(bus).check(body)
