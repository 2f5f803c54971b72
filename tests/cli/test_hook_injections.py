"""Nothing that a sender wrote comes by a hook, whatever program, event, name, type or body."""

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest

from ackbus import Bus, Inbox
from ackbus.cli.fast import agent_hooks as hooks
from ackbus.cli.fast import waiting_hook
from ackbus.cli.show.output import Output
from ackbus.schema.message.names import is_plain
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
from ackbus.wake.waking import LINE, TEXT

from ..injections import INJECTIONS, MARK, Disguise, disguise

ALL = [disguise(number) for number in range(len(INJECTIONS))]

Said = pytest.CaptureFixture[bytes]


def test_there_are_fifty_in_every_place() -> None:
    assert len(set(INJECTIONS)) >= 50
    assert all(MARK in text for text in INJECTIONS)
    for place in ("sender", "type", "id", "line", "body"):
        assert sum(MARK in getattr(each, place) for each in ALL) >= 45, place
    assert sum(is_plain(each.sender) and MARK in each.sender for each in ALL) >= 3


def publish(bus: Bus, each: Disguise, number: int) -> None:
    bus.publish(
        each.type,
        each.body,
        from_agent=each.sender,
        to_agent=("me", None)[number % 2],
        id=each.id,
        headers={"subject": each.body, "meta": {"title": each.body}},
        priority=0,
    )


@pytest.fixture
def bus(bus: Bus) -> Bus:
    """A bus with all of them, as mail, tasks of agents, and reasons of reservations."""
    bus.heartbeats.beat("me")
    for number, each in enumerate(ALL):
        publish(bus, each, number)
        bus.heartbeats.beat(each.sender, "working", task=each.line[:200])
        bus.reservations.reserve([f"src/{number}"], each.sender, reason=each.line[:200])
    return bus


def hears(event: str, program: str, bus: Bus, said: Said) -> str:
    """Return what an event makes a program's hook say, by its own entry point."""
    code = hooks.hook(Output(), event, program, agent="me", directory=bus.directory)
    assert code in (0, hooks.GOES_ON)
    out, err = said.readouterr()
    return (out + err).decode()


def all_said(program: str, bus: Bus, said: Said) -> Iterator[str]:
    """Yield what the hooks of a program say until all mail was named."""
    yield hears("start", program, bus, said)
    yield hears("stop", program, bus, said)
    SeenMailNotes(bus, "me").note(afresh=True)
    while text := hears("tool", program, bus, said):
        yield text


@pytest.mark.parametrize("program", hooks.ANSWERS)
def test_no_hook_hands_over_a_senders_text(
    program: str, bus: Bus, capsysbinary: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 32, item 2: not a name, type, id, subject, body, task or reason."""
    monkeypatch.setattr(hooks, "_event_payload", dict)  # the standard input of the tests has no end
    named = set()
    for text in all_said(program, bus, capsysbinary):
        assert MARK not in text
        assert json.loads(text)
        named |= {int(seq) for seq in re.findall(r"\[(\d+)\] a message from a sender", text)}
    seqs = range(1, len(ALL) + 1)
    older = seqs[1::2][:-20]  # broadcasts before the last 20, which are only counted
    assert named == {*seqs} - {*older}


def test_known_senders_are_named_only_if_their_names_are_plain(
    bus: Bus, capsysbinary: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent answered all of them, each by a message of the same type."""
    monkeypatch.setattr(hooks, "_event_payload", dict)
    for each in ALL:
        bus.publish(each.type, from_agent="me", to_agent=each.sender, in_reply_to=each.id)
    newest = bus.log.newest_seq()
    Inbox(bus, "me").ack(newest)
    for number, each in enumerate(ALL):
        publish(bus, each._replace(id=f"later{number}"), number)
    shown = set()
    while text := hears("tool", "claude", bus, capsysbinary):
        told = json.loads(text)["hookSpecificOutput"]["additionalContext"]
        for seq, type, sender in re.findall(
            r"^\[(\d+)\] (a message|\S+) from (a sender|\S+)(?: to all)?$", told, re.MULTILINE
        ):
            each = ALL[int(seq) - newest - 1]
            assert type == (each.type if is_plain(each.type) else "a message")
            assert sender == (each.sender if is_plain(each.sender) else "a sender")
            shown.add(int(seq))
    assert len(shown) == len(ALL)


@pytest.mark.parametrize("program", hooks.WAITERS)
def test_waking_says_one_fixed_text(
    program: str, bus: Bus, capsysbinary: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The typed line, and the words of a waiting hook, are the same for every message."""
    monkeypatch.setattr(hooks, "_event_payload", dict)
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    monkeypatch.setattr(waiting_hook, "wait", partial(waiting_hook.wait, patience_s=0))
    said = hears("wait", program, bus, capsysbinary).strip()
    assert said in (TEXT, json.dumps({"text": TEXT}, separators=(",", ":")))
    assert f"({TEXT})" == LINE
