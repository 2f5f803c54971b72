"""Handlers that would never run: refused before anything is delivered, and never acknowledged."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from ackbus import Bus, Inbox, Message, Session
from ackbus.errors import InvalidInput

handled: list[int] = []


async def coroutine(message: Message) -> None:
    handled.append(message.seq)


def generator(message: Message) -> Iterator[int]:
    handled.append(message.seq)
    yield message.seq


async def async_generator(message: Message) -> AsyncIterator[int]:
    handled.append(message.seq)
    yield message.seq


class AsyncHandler:
    async def __call__(self, message: Message) -> None:
        handled.append(message.seq)


def plain(message: Message) -> None:
    handled.append(message.seq)


@pytest.fixture(autouse=True)
def _no_warning_and_two_messages(bus: Bus) -> Iterator[None]:
    handled.clear()
    bus.publish("note", 1, from_agent="planner")
    bus.publish("note", 2, from_agent="planner")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def run_inbox(bus: Bus, handler: Any) -> None:
    Inbox(bus, "worker", max_deliveries=1).run(handler, drain=True)


def run_session(bus: Bus, handler: Any) -> None:
    with Session(bus, "worker", own_broadcasts=False, max_deliveries=1) as me:
        me.run(handler, drain=True)


@pytest.mark.parametrize("run", [run_inbox, run_session])
@pytest.mark.parametrize("handler", [coroutine, generator, async_generator, AsyncHandler()])
def test_handler_that_would_never_run_is_refused_before_anything_is_delivered(
    bus: Bus, run: Callable[[Bus, object], None], handler: object
) -> None:
    told = "would never run .*: give a plain function, or await Inbox.run_async with a coroutine"
    with pytest.raises(InvalidInput, match=told):
        run(bus, handler)
    inbox = Inbox(bus, "worker", own_broadcasts=False)
    assert (handled, inbox.position, len(inbox.parked())) == ([], 0, 0)
    assert [message.seq for message in inbox.poll()] == [1, 2]


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        *((each, "takes a coroutine function") for each in (plain, generator, async_generator)),
        (print, "run_async takes a coroutine function, not 'print'"),
        (None, "handler must be a function, not None"),
    ],
)
def test_handler_that_can_not_be_awaited_is_refused_before_it_runs(
    bus: Bus, handler: Any, told: str
) -> None:
    inbox = Inbox(bus, "worker", max_deliveries=1)
    with pytest.raises(InvalidInput, match=told):
        asyncio.run(inbox.run_async(handler, drain=True))
    assert (handled, inbox.position, inbox.parked()) == ([], 0, [])


@pytest.mark.parametrize("run", [run_inbox, run_session])
@pytest.mark.parametrize(
    ("handler", "what"),
    [
        (lambda message: coroutine(message), "a coroutine"),
        (lambda message: generator(message), "a generator"),
        (lambda message: async_generator(message), "an async_generator"),
    ],
)
def test_delivery_whose_work_was_not_done_has_failed(
    bus: Bus, run: Callable[[Bus, object], None], handler: object, what: str
) -> None:
    """No warning either that a coroutine was never awaited: it is closed."""
    run(bus, handler)
    first, second, *_ = Inbox(bus, "worker").parked()
    assert (first.seq, second.seq, handled) == (1, 2, [])
    assert f"returned {what}, which is never run: its work was not done" in first.error


def test_coroutine_that_returns_another_has_failed(bus: Bus) -> None:
    async def handle(message: Message) -> object:
        return coroutine(message)

    inbox = Inbox(bus, "worker", max_deliveries=1)
    asyncio.run(inbox.run_async(handle, drain=True))
    assert (handled, [item.seq for item in inbox.parked()]) == ([], [1, 2])


def test_coroutine_method_of_an_object_handles(bus: Bus) -> None:
    asyncio.run(Inbox(bus, "worker").run_async(AsyncHandler(), drain=True))
    assert handled == [1, 2]


def test_what_a_handler_returns_is_ignored(bus: Bus) -> None:
    handler: Any = lambda message: [message.seq]  # noqa: E731
    inbox = Inbox(bus, "worker")
    inbox.run(handler, drain=True)
    assert inbox.position == 2
