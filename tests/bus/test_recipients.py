"""Recipients: several of one message, and names that no agent has."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from ackbus import Bus, Draft, Inbox, Queue, Session
from ackbus.errors import AckbusError, IdConflict, InvalidInput, UnknownRecipient
from ackbus.schema.message.draft import MAX_RECIPIENTS
from ackbus.schema.message.names import near_names
from ackbus.subscribers.requests import Request

#: Names that mean several, or nobody, and what is to be done instead.
MISTAKES = {
    "everyone": "to reach everyone, name no recipient",
    "All": "to reach everyone, name no recipient",
    "*": "to reach everyone, name no recipient",
    "alice,bob": "name several one by one",
    "alice, bob": "name several one by one",
    '["alice","bob"]': "name several one by one",
    '["alice"]': "name several one by one",
    "": "recipient must not be empty: to reach everyone, name no recipient",
}

DOORS: dict[str, Callable[[Bus, str], object]] = {
    "publish": lambda bus, to: bus.publish("t", from_agent="me", to_agent=to),
    "publish_many": lambda bus, to: bus.publish_many(
        [Draft("t", from_agent="me"), Draft("t", from_agent="me", to_agent=to)]
    ),
    "to_each": lambda bus, to: bus.publish_many(Draft("t", from_agent="me").to_each(["alice", to])),
    "a session": lambda bus, to: Session(bus, "me").publish("t", to_agent=to),
    "a request": lambda bus, to: Request.send(bus, "t.request", from_agent="me", to_agent=to),
    "complete": lambda bus, to: Inbox(bus, "me").complete(
        next(bus.read()), Draft("t", from_agent="me", to_agent=to)
    ),
    "the end of a claim": lambda bus, to: Queue.open(bus, "q").complete(
        Queue.open(bus, "q").claim("me")[0], Draft("t", from_agent="me", to_agent=to)
    ),
}


@pytest.fixture(autouse=True)
def agents(bus: Bus) -> None:
    for name in ("alice", "bob", "carol"):
        bus.heartbeats.beat(name)
    Queue.create(bus, "q", "job", hides="none")
    bus.publish("job", from_agent="lead")


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("door", DOORS)
def test_name_that_means_several_is_refused_at_every_door(bus: Bus, door: str, name: str) -> None:
    """Issue 19, 6: before anything is stored, in one line that says what to do."""
    with pytest.raises(AckbusError, match=MISTAKES[name]) as caught:
        DOORS[door](bus, name)
    assert isinstance(caught.value, (UnknownRecipient, InvalidInput))
    assert "\n" not in str(caught.value)
    assert bus.log.newest_seq() == 1


@pytest.mark.parametrize("name", ["everyone", "alice,bob"])
def test_agent_that_has_such_a_name_is_reached(bus: Bus, name: str) -> None:
    """Issue 19, 6: whoever was there before the rule is answered still."""
    bus.publish("t.request", from_agent=name)
    assert bus.publish("t.done", from_agent="me", to_agent=name).seq == 3


def to_each(bus: Bus, *names: str, **fields: Any) -> list[int]:
    draft = Draft("task", {"n": 1}, from_agent="me", **fields)
    return [receipt.seq for receipt in bus.publish_many(draft.to_each(names))]


def test_each_recipient_has_a_message_in_one_conversation(bus: Bus) -> None:
    """Issue 19, 6: receipts in the order of the names; a name that comes twice counts once."""
    assert to_each(bus, "bob", "alice", "bob") == [2, 3]
    first, second = bus.read(after_seq=1)
    assert (first.to_agent, second.to_agent) == ("bob", "alice")
    assert first.conversation == second.conversation == first.id
    assert first.payload == second.payload == {"n": 1}
    assert [len(Inbox(bus, name).poll()) for name in ("alice", "bob", "carol")] == [2, 2, 1]


def test_several_replies_join_the_conversation_of_their_parent(bus: Bus) -> None:
    root = next(bus.read())
    to_each(bus, "alice", "bob", in_reply_to=root.id)
    assert {each.conversation for each in bus.read()} == {root.id}
    to_each(bus, "alice", "bob", correlation_id="talk")
    assert len(list(bus.read(conversation="talk"))) == 2


def test_publishing_to_several_again_by_an_id_stores_nothing(bus: Bus) -> None:
    """Issue 19, 6: a sender whose first response was lost repeats it."""
    seqs = to_each(bus, "alice", "bob", id="once")
    assert to_each(bus, "alice", "bob", id="once") == seqs
    assert [each.id for each in bus.read(after_seq=1)] == ["once", "once:bob"]
    assert to_each(bus, "alice", "bob", "carol", id="once") == [*seqs, 4]
    with pytest.raises(IdConflict):
        to_each(bus, "bob", "carol", "alice", id="once")
    assert bus.log.newest_seq() == 4


def test_all_are_stored_or_none(bus: Bus) -> None:
    bus.limits.set_for_inbox("bob", 1)
    bus.publish("t", from_agent="me", to_agent="bob")
    with pytest.raises(AckbusError, match="inbox 'bob' is full"):
        to_each(bus, "alice", "bob")
    assert bus.log.newest_seq() == 2


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], "the list of recipients is empty: to reach everyone"),
        ("alice", "must be an iterable of text, not 'alice'"),
        (["alice", 7], "must be an iterable of text, not list"),
        (["alice", "a\nb"], "control characters"),
        (7, "recipients"),
        ([f"a{n}" for n in range(MAX_RECIPIENTS + 1)], "more than 100: name none"),
    ],
)
def test_what_is_no_list_of_names_is_refused(names: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Draft("t", from_agent="me").to_each(names)
    with pytest.raises(InvalidInput, match="not both"):
        Draft("t", from_agent="me", to_agent="bob").to_each(["alice"])


def test_list_where_one_name_belongs_says_how_to_name_several(bus: Bus) -> None:
    """Issue 19, 6: a wrong type is refused as any is, with the call that takes a list."""
    with pytest.raises(
        InvalidInput, match=r"to_agent must be text or None, not list .*; for several, .*to_each"
    ):
        bus.publish("t", from_agent="me", to_agent=["alice", "bob"])  # type: ignore[arg-type]


def test_derived_id_that_would_be_too_long_is_refused(bus: Bus) -> None:
    with pytest.raises(InvalidInput, match="id is 259 characters long"):
        to_each(bus, "alice", "bob", id="i" * 255)
    assert bus.log.newest_seq() == 1


def test_near_names_are_words_and_few_are_compared() -> None:
    """Anybody chooses names: one could be a sentence for agents, and many could be made alike."""
    odd = ("run rm now", "run\x1b[2J", "run\n", "<run>", "run:", "r" * 65)
    assert near_names("run", ["rum", "RUN", *odd]) == ["RUN", "rum"]
    assert near_names("run" * 10_000, ["run" * 21]) == ["run" * 21]
    assert near_names("runn", ["run" * 21, "run"]) == ["run"]
    for long, at_most in (("ab" * 60, 500), ("agent", 100_000)):
        numbers = count()
        near_names(long, (f"{long}{number}" for number in numbers))
        assert at_most / 10 < next(numbers) < at_most
