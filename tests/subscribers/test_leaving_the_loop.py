"""The effect of leaving a `for message in inbox` loop on the current message."""

import asyncio
import contextlib

import pytest

from ackbus import Bus, Inbox

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def fail_over_first(inbox: Inbox) -> None:
    with contextlib.suppress(ValueError):
        for message in inbox:
            raise ValueError(message.seq)


def test_a_message_that_breaks_the_loop_is_parked_in_the_end(bus: Bus) -> None:
    """M-56, promise 5: the iterator form counts failures as the handler form does."""
    bus.publish("poison", from_agent="a", to_agent="b", id="poison")
    bus.publish("fine", from_agent="a", to_agent="b", id="fine")
    inbox = Inbox(bus, "b", max_deliveries=3)
    for _ in range(3):
        assert [message.id for message in inbox.poll()] == ["poison", "fine"]
        fail_over_first(inbox)
    (parked,) = inbox.parked()
    assert (parked.seq, parked.attempts) == (1, 3)
    assert [message.id for message in inbox.poll()] == ["fine"]


def test_a_break_after_an_acknowledgement_is_no_failure(bus: Bus) -> None:
    """M-37, M-50: what was acknowledged is done, however the loop ends."""
    bus.publish("one", from_agent="a", to_agent="b")
    bus.publish("two", from_agent="a", to_agent="b")
    inbox = Inbox(bus, "b")
    for message in inbox:
        inbox.ack(message)
        break
    (second,) = inbox.poll()
    assert (inbox.position, second.type, inbox.attempts(second)) == (1, "two", 0)


def test_a_break_without_one_delivers_again(bus: Bus) -> None:
    """M-35, M-37: nothing is acknowledged by leaving, and the next delivery knows its number."""
    bus.publish("one", from_agent="a", to_agent="b")
    inbox = Inbox(bus, "b")
    for _ in range(2):
        for _message in inbox:
            break
    attempts: list[int] = []
    inbox.run(lambda message: attempts.append(message.attempt), drain=True)
    assert attempts == [3]


def test_an_asynchronous_loop_that_breaks_off_counts_too(bus: Bus) -> None:
    """M-56: one implementation of the rules."""
    bus.publish("one", from_agent="a", to_agent="b")
    inbox = Inbox(bus, "b")

    async def leave() -> None:
        stream = aiter(inbox)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    (message,) = inbox.poll()
    assert inbox.attempts(message) == 1


def test_a_closed_bus_makes_leaving_no_error(bus: Bus) -> None:
    """The generator may end after the bus was closed; nothing is printed or raised."""
    bus.publish("one", from_agent="a", to_agent="b")
    with Bus.open(bus.layout.directory) as other:
        stream = iter(Inbox(other, "b"))
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert Inbox(bus, "b").position == 0
