"""A worker on a full disk waits, says so once, and goes on when there is room."""

import logging
import threading

import pytest

from ackbus import Bus, Message, Queue, Worker

from ..conftest import wait_until
from .conftest import SmallDisk


@pytest.mark.slow
def test_worker_waits_for_room_and_loses_nothing(
    small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a job that runs as the disk gets full is stored later; the others wait."""
    bus_dir = small_disk.path / "bus"
    begun, may_end, done = threading.Event(), threading.Event(), list[int]()

    def handle(message: Message) -> None:
        begun.set()
        may_end.wait()
        done.append(message.seq)

    with Bus.init(bus_dir) as bus:
        Queue.create(bus, "work")
        for number in range(3):
            bus.publish("work", number, from_agent="bob")
        worker = Worker(bus, "work", group="ann", beats=False)
        with caplog.at_level(logging.WARNING):
            thread = threading.Thread(target=lambda: worker.run(handle))
            thread.start()
            begun.wait()
            small_disk.fill()
            may_end.set()
            wait_until(lambda: any("full" in each.getMessage() for each in caplog.records))
            assert thread.is_alive()
            small_disk.make_room()
            wait_until(lambda: len(done) == 3)
            worker.stop()
            thread.join()
        assert done == [1, 2, 3]
        told = [each for each in caplog.records if "full" in each.getMessage()]
        assert 0 < len(told) < 5  # not at each try
    with Bus.open(bus_dir) as again:
        assert Queue.open(again, "work").claim("other") == []
