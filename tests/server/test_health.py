"""Health: asked of the store, and by many at once."""

import asyncio
import threading

from ackbus import Bus
from ackbus.server.access.access import BusAccess
from ackbus.server.monitoring import Readiness
from ackbus.server.running import create_app, end_streams


class Counted(Readiness):
    """Counts its questions, which go on until they are let go."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.count = 0
        self.go_on = threading.Event()

    def _ask(self) -> int:
        self.count += 1
        assert self.go_on.wait(60)
        return super()._ask()


def test_all_who_ask_at_a_time_are_answered_by_one_check(bus: Bus) -> None:
    """Nobody needs a token for it: else it is a way to keep all threads busy."""
    readiness = Counted(bus)

    async def ask() -> list[int]:
        askers = [asyncio.create_task(readiness.check()) for _ in range(40)]
        await asyncio.sleep(0)  # each has begun
        askers.pop().cancel()  # one that goes away takes nothing from the others
        await asyncio.sleep(0)
        readiness.go_on.set()
        return await asyncio.gather(*askers)

    bus.publish("t", from_agent="a")
    assert asyncio.run(ask()) == [1] * 39
    assert readiness.count == 1
    bus.publish("t", from_agent="a")
    assert asyncio.run(readiness.check()) == 2


def test_signal_before_the_server_has_begun_ends_it_without_an_error(bus: Bus) -> None:
    """Its handler may be called before there is anything that it could end."""
    end_streams(create_app(bus, BusAccess(bus)))
