"""A message that was read: read-only, with its time, a reply to it, and a repr for people."""

import gc
from copy import copy, deepcopy
from datetime import UTC, datetime

import pytest

from ackbus import Bus, Draft, Message
from ackbus.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def stored(bus: Bus, payload: object = "text", **fields: object) -> Message:
    draft = Draft("note.request", payload, from_agent="alice", to_agent="bob", **fields)  # type: ignore[arg-type]
    (receipt,) = bus.publish_many([draft])
    message = bus.get(receipt.seq)
    assert message is not None
    return message


@pytest.mark.parametrize("field", ["seq", "payload", "type", "attempt", "raw_payload", "unknown"])
def test_no_field_can_be_set_or_deleted(bus: Bus, field: str) -> None:
    message = stored(bus)
    before = message.to_line()
    with pytest.raises(AttributeError, match=f"{field} is read-only"):
        setattr(message, field, 5)
    with pytest.raises(AttributeError, match=f"{field} is read-only"):
        delattr(message, field)
    assert (message.to_line(), message.payload) == (before, "text")


def test_a_copy_is_a_message_whose_payload_is_its_own(bus: Bus) -> None:
    """It shares the blob store, whose file descriptors a copy of its own would close."""
    message = stored(bus, {"steps": ["x" * 5000]})
    assert copy(message) is message
    copied = deepcopy(message)
    copied.payload["steps"].clear()
    assert message.payload == {"steps": ["x" * 5000]}
    assert copied.to_line() == message.to_line()
    assert copied.attempt == message.attempt
    del copied
    gc.collect()
    assert bus.get(message.seq).payload == message.payload  # type: ignore[union-attr]


def test_the_time_is_in_utc_to_the_millisecond(bus: Bus) -> None:
    message = stored(bus, ts_ms=1_767_225_600_007)
    assert message.ts == datetime(2026, 1, 1, 0, 0, 0, 7000, UTC)


def test_the_last_time_that_a_message_may_have_has_a_date(bus: Bus) -> None:
    assert stored(bus, ts_ms=253_402_300_799_999).ts.year == 9999


def test_a_reply_goes_to_the_sender_in_the_conversation(bus: Bus) -> None:
    message = stored(bus)
    bus.publish_many([message.reply("note.done", {"ok": True}, headers={"n": 1})])
    (reply,) = bus.read(type="note.done")
    assert (reply.from_agent, reply.to_agent) == ("bob", "alice")
    assert (reply.in_reply_to, reply.conversation) == (message.id, message.conversation)
    assert (reply.payload, reply.headers) == ({"ok": True}, {"n": 1})


def test_a_broadcast_is_answered_under_a_name(bus: Bus) -> None:
    message = bus.get(bus.publish("note", from_agent="alice").seq)
    assert message is not None
    with pytest.raises(InvalidInput, match="name who answers in from_agent"):
        message.reply("note.done")
    assert message.reply("note.done", from_agent="carol").from_agent == "carol"


@pytest.mark.parametrize(
    ("payload", "shown"),
    [({"a": 1}, ' {"a":1}>'), ("x" * 500, ' "' + "x" * 79 + "…>"), (None, " null>")],
    ids=["short", "long", "null"],
)
def test_the_short_form_has_the_payload_cut(bus: Bus, payload: object, shown: str) -> None:
    assert repr(stored(bus, payload)).endswith(shown)
