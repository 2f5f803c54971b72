"""The forms of the library for coroutines, and waiting for several requests."""

import asyncio
import threading
from pathlib import Path

import pytest

from ackbus import Bus, Inbox, Message, Request, Session, as_completed, wait_all
from ackbus.errors import InvalidInput, TimedOut

from ..conftest import wait_until
from ..programs import TIMEOUT_S, run_program

pytestmark = [
    pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning"),
    pytest.mark.filterwarnings("ignore::ackbus.errors.UnservedRequestWarning"),
]


def ask(bus: Bus, count: int) -> list[Request]:
    return [Request.send(bus, "t.request", n, from_agent="asker") for n in range(count)]


def answer(bus: Bus, request: Request, *, kind: str = "done") -> None:
    bus.publish(f"t.{kind}", request.seq, from_agent="w", to_agent="asker", in_reply_to=request.id)


def waiting_threads() -> int:
    return sum(each.name.startswith("ackbus-wait") for each in threading.enumerate())


def test_answers_come_in_the_order_of_answering(bus: Bus) -> None:
    first, second, third = ask(bus, 3)
    answer(bus, second)
    answer(bus, first, kind="failed")
    found = as_completed([first, second, third], timeout_s=TIMEOUT_S)
    assert [next(found)[0], next(found)[0]] == [first, second]  # both are there: in order
    answer(bus, third)
    assert next(found)[1].state == "success"
    assert list(found) == []
    assert Inbox(bus, "asker").poll() == []  # received


def test_all_answers_are_in_the_order_of_the_requests(bus: Bus) -> None:
    requests = ask(bus, 3)
    for request in reversed(requests):
        answer(bus, request)
    answers = wait_all(requests, timeout_s=TIMEOUT_S)
    assert [each.reply.payload for each in answers if each.reply] == [r.seq for r in requests]
    assert wait_all([]) == []


def test_a_wait_for_all_ends_in_time_and_keeps_what_came(bus: Bus) -> None:
    first, second = ask(bus, 2)
    answer(bus, first)
    with pytest.raises(TimedOut, match=f"no answer to {second.id} within 0.05 s"):
        wait_all([first, second], timeout_s=0.05)
    with pytest.raises(TimeoutError, match="2 requests"):
        wait_all(ask(bus, 2), timeout_s=0)
    assert Inbox(bus, "asker").poll() == []


def test_requests_of_several_buses_are_refused(bus: Bus, tmp_path: Path) -> None:
    with Bus.init(tmp_path / "other") as other, pytest.raises(InvalidInput, match="several buses"):
        wait_all(ask(bus, 1) + ask(other, 1))


def test_an_answer_of_another_process_wakes_the_waiter(bus: Bus, bus_dir: Path) -> None:
    async def main() -> str:
        (request,) = ask(bus, 1)
        waiter = asyncio.create_task(request.wait_async(TIMEOUT_S))
        await asyncio.to_thread(
            run_program,
            "import sys; from ackbus import Bus;"
            "Bus.open(sys.argv[1]).publish('t.done', from_agent='w', in_reply_to=sys.argv[2])",
            bus_dir,
            request.id,
        )
        return (await waiter).state

    assert asyncio.run(main()) == "success"
    wait_until(lambda: waiting_threads() == 0)


def test_a_wait_of_a_coroutine_ends_in_time(bus: Bus) -> None:
    asyncio.run(_answers_one(bus))
    wait_until(lambda: waiting_threads() == 0)


async def _answers_one(bus: Bus) -> None:
    one, two = ask(bus, 2)
    waiter = asyncio.create_task(one.wait_async(TIMEOUT_S))
    await bus.publish_async("t.done", from_agent="w", to_agent="asker", in_reply_to=one.id)
    assert (await waiter).state == "success"
    with pytest.raises(TimedOut):
        await two.wait_async(0.02)


def test_the_loop_goes_on_while_a_request_waits(bus: Bus) -> None:
    async def main() -> int:
        ticks = 0
        waiter = asyncio.create_task(
            bus.request_async("t.request", from_agent="asker", timeout_s=TIMEOUT_S)
        )
        while not waiter.done():
            ticks += 1
            await asyncio.sleep(0)
            if ticks == 100:
                asked = next(bus.read(type="t.request"), None)
                while asked is None:
                    await asyncio.sleep(0.001)
                    asked = next(bus.read(type="t.request"), None)
                await bus.publish_async("t.done", from_agent="w", in_reply_to=asked.id)
        assert waiter.result().state == "success"
        return ticks

    assert asyncio.run(main()) >= 100


def test_a_cancelled_wait_ends_its_thread(bus: Bus) -> None:
    async def main() -> None:
        (request,) = ask(bus, 1)
        waiter = asyncio.create_task(request.wait_async())
        while not waiting_threads():
            await asyncio.sleep(0.001)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    wait_until(lambda: waiting_threads() == 0)


def test_following_yields_what_was_there_and_what_comes(bus: Bus) -> None:
    for n in range(450):
        bus.publish("note" if n % 2 else "other", n, from_agent="a")

    async def main() -> list[int]:
        seen = []
        async for message in bus.follow_async(after_seq=0, type="note"):
            seen.append(message.payload)
            if len(seen) == 225:
                await bus.publish_async("note", "late", from_agent="a")
            if message.payload == "late":
                return seen
        raise AssertionError

    seen = asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    assert seen == [*range(1, 450, 2), "late"]
    wait_until(lambda: waiting_threads() == 0)


def test_following_begins_where_it_is_called(bus: Bus) -> None:
    bus.publish("note", "before", from_agent="a")

    async def main() -> object:
        found = bus.follow_async()
        await bus.publish_async("note", "after", from_agent="a")
        return (await anext(found)).payload  # type: ignore[call-overload]

    assert asyncio.run(main()) == "after"


def test_a_session_of_coroutines(bus: Bus) -> None:
    seen: list[object] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        seen.append(message.payload)

    async def main() -> None:
        async with Session(bus, "me") as me:
            bus.publish("note", 1, from_agent="lead", to_agent="me")
            await me.run_async(handle, drain=True)
            with pytest.raises(InvalidInput, match="plain functions"):
                await me.run_async(lambda message: None)  # type: ignore[arg-type,return-value]

    asyncio.run(main())
    assert seen == [1]
    assert [m.type for m in bus.read(agent="me")] == ["agent_started", "note", "agent_stopped"]


def test_many_waits_at_once_leave_threads_for_publishing(bus: Bus) -> None:
    async def main() -> None:
        requests = ask(bus, 20)
        waits = [asyncio.create_task(each.wait_async(TIMEOUT_S)) for each in requests]
        await asyncio.sleep(0)
        for request in requests:
            await bus.publish_async("t.done", from_agent="w", in_reply_to=request.id)
        assert {each.state for each in await asyncio.gather(*waits)} == {"success"}

    asyncio.run(main())
