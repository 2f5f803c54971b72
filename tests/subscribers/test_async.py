"""The loop for asyncio: the same rules, and an event loop that never waits for the bus."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox, Message
from ackbus.subscribers.inboxes import delivery

from ..programs import held_write_lock

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


@pytest.fixture(autouse=True)
def _short_retry_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 0.01)


def fill(bus: Bus, count: int) -> None:
    bus.publish_many([Draft("note", n, from_agent="bob") for n in range(count)])


def slow_inbox(bus: Bus) -> Inbox:
    """An inbox whose waits would take a minute."""
    return Inbox(bus, "alice", recheck_s=60)


def test_coroutine_handles_and_acknowledges(bus: Bus) -> None:
    """M-37, M-53, C-08: one after another, and in order, also when one fails."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    seen = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        seen.append((message.seq, message.attempt))
        if seen == [(1, 1), (2, 1)]:
            raise RuntimeError

    asyncio.run(inbox.run_async(handle, drain=True))
    assert seen == [(1, 1), (2, 1), (2, 2), (3, 1)]
    assert inbox.position == 3


def test_coroutine_that_always_fails_parks_its_message(bus: Bus) -> None:
    """M-56."""
    fill(bus, 2)
    inbox = Inbox(bus, "alice", max_deliveries=2)

    async def handle(message: Message) -> None:
        if message.seq == 1:
            raise RuntimeError("no")

    asyncio.run(inbox.run_async(handle, drain=True))
    assert [parked.seq for parked in inbox.parked()] == [1]
    assert inbox.position == 2


def test_async_for_acknowledges_the_last_with_the_next(bus: Bus) -> None:
    """M-37: and wakes for messages that come while it waits."""
    fill(bus, 2)
    inbox = slow_inbox(bus)
    positions = []

    async def main() -> None:
        async for message in inbox:
            positions.append((message.seq, inbox.position))
            if message.seq == 2:
                asyncio.get_running_loop().call_later(0.05, fill, bus, 1)
            if message.seq == 3:
                break

    asyncio.run(asyncio.wait_for(main(), 20))
    assert positions == [(1, 0), (2, 1), (3, 2)]
    assert inbox.position == 2


def test_event_loop_goes_on_while_the_inbox_waits(bus: Bus) -> None:
    """M-61: other tasks run at their own pace beside an inbox without messages."""
    inbox = slow_inbox(bus)
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        for _ in range(100):
            started = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - started)

    async def main() -> None:
        waiting = asyncio.create_task(inbox.run_async(_nothing))
        await tick()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(main())
    assert longest < 15


def test_event_loop_goes_on_while_the_bus_is_locked(bus: Bus, bus_dir: Path) -> None:
    """M-61: an acknowledgement that waits for another program blocks its thread alone."""
    fill(bus, 1)
    inbox = slow_inbox(bus)
    ticks = 0

    async def main() -> None:
        nonlocal ticks
        handled = asyncio.Event()

        async def handle(message: Message) -> None:
            handled.set()

        with held_write_lock(bus_dir) as holder:
            task = asyncio.create_task(inbox.run_async(handle, drain=True))
            for _ in range(50):
                await asyncio.sleep(0.001)
                ticks += 1
            assert not task.done()
            assert not handled.is_set()  # beginning to deliver is a write too
            assert holder.stdin is not None
            holder.stdin.close()
            await asyncio.wait_for(task, 20)
        assert handled.is_set()

    asyncio.run(main())
    assert ticks == 50
    assert inbox.position == 1


def test_waiting_loop_is_cancelled_at_once(bus: Bus) -> None:
    """M-68: long before the wait is over, and the thread and its descriptors are gone."""
    inbox = slow_inbox(bus)

    async def main() -> float:
        task = asyncio.create_task(inbox.run_async(_nothing))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    asyncio.run(main())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert asyncio.run(main()) < 15
    # SQLite keeps the closed one of a thread while another thread has the file open.
    assert len(os.listdir("/proc/self/fd")) < before + 5


def test_cancelled_handler_acknowledges_nothing(bus: Bus) -> None:
    """M-35, M-37: what was handled stays acknowledged, what was not comes again."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    handled = []

    async def main() -> None:
        at_second = asyncio.Event()

        async def handle(message: Message) -> None:
            if message.seq == 2:
                at_second.set()
                await asyncio.sleep(60)
            handled.append(message.seq)

        task = asyncio.create_task(inbox.run_async(handle))
        await at_second.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert (handled, inbox.position) == ([1], 1)
    assert [message.seq for message in inbox.poll()] == [2, 3]


def test_loop_cancelled_at_any_moment_loses_nothing(bus: Bus) -> None:
    """M-35, promise 5: every message is handled, and none is acknowledged that was not."""
    fill(bus, 60)
    inbox = Inbox(bus, "alice")
    handled: list[int] = []

    async def handle(message: Message) -> None:
        assert message.seq > inbox.position
        handled.append(message.seq)

    async def main() -> None:
        delay_s = 0.001
        while inbox.position < 60:
            task = asyncio.create_task(inbox.run_async(handle))
            await asyncio.sleep(delay_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert inbox.position <= max(handled, default=0)
            delay_s += 0.001

    asyncio.run(main())
    assert sorted(set(handled)) == list(range(1, 61))


async def _nothing(message: Message) -> None:
    raise AssertionError(message)
