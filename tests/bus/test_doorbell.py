"""The doorbell: a hint that wakes waiters at once; nothing depends on it."""

import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus import doorbell
from ackbus.bus.doorbell import Listener, StopEvent, listen, wait_for
from ackbus.schema.queries import file_of

from ..programs import raw_sql, run_program, running_program

#: Far more than a wake-up takes, also on a busy machine, and far less than the waits here.
PROMPT_S = 15.0


@pytest.fixture(params=[True, False], ids=["inotify", "asking"])
def make_listener(request: pytest.FixtureRequest, bus: Bus) -> Callable[[], Listener]:
    """Makes listeners, by inotify and as where there is none."""
    return lambda: Listener(bus.layout.doorbell, file_of(bus), use_inotify=request.param)


def timed_wait(listener: Listener, timeout_s: float) -> tuple[bool, float]:
    started = time.monotonic()
    return listener.wait(timeout_s), time.monotonic() - started


PUBLISH = """
import sys
from ackbus import Bus
with Bus.open(sys.argv[1]) as bus:
    sys.stdin.read()
    bus.publish("note", from_agent="bob")
"""


def test_publisher_in_another_process_wakes_a_waiter(
    make_listener: Callable[[], Listener], bus_dir: Path
) -> None:
    """X-10, X-42: long before the time is over."""
    with make_listener() as listener, running_program(PUBLISH, bus_dir) as publisher:
        assert publisher.stdin is not None
        threading.Timer(0.1, publisher.stdin.close).start()
        woken, waited = timed_wait(listener, 60)
        assert woken
        assert waited < PROMPT_S
        publisher.wait()


def test_publish_between_look_and_wait_is_not_missed(
    make_listener: Callable[[], Listener], bus_dir: Path
) -> None:
    """PITFALLS 11: listening began first, so the wait ends at once."""
    with make_listener() as listener:
        run_program(
            "import sys; from ackbus import Bus;"
            "Bus.open(sys.argv[1]).publish('note', from_agent='bob')",
            bus_dir,
        )
        woken, waited = timed_wait(listener, 30)
    assert woken
    assert waited < PROMPT_S


def test_wait_without_news_ends_in_time(make_listener: Callable[[], Listener]) -> None:
    """PITFALLS 11: every wait is bounded."""
    with make_listener() as listener:
        woken, waited = timed_wait(listener, 0.1)
        assert not woken
        assert 0.09 <= waited < PROMPT_S
        assert timed_wait(listener, -1)[0] is False


def test_wake_ends_the_wait_that_is_on_and_the_next(make_listener: Callable[[], Listener]) -> None:
    """PITFALLS 11: from any thread; many wakes are one, and after closing it is harmless."""
    with make_listener() as listener:
        threading.Timer(0.05, listener.wake).start()
        woken, waited = timed_wait(listener, 60)
        assert woken
        assert waited < PROMPT_S
        for _ in range(1000):
            listener.wake()
        assert listener.wait(30)
        assert not listener.wait(0)
    listener.wake()
    listener.close()


def test_wait_for_looks_at_each_ring_and_returns_the_last_look(bus: Bus, bus_dir: Path) -> None:
    """It listens before the first look; where nothing comes, the last look counts."""
    looks: list[int] = []

    def look() -> int:
        looks.append(bus.log.newest_seq())
        if len(looks) == 1:
            with Bus.open(bus_dir) as other:
                other.publish("note", from_agent="bob")  # between this look and the wait
        return looks[-1]

    assert wait_for(bus, look, timeout_s=60, recheck_s=60) == 1
    assert looks == [0, 1]
    assert wait_for(bus, look, lambda seq: seq > 1, timeout_s=0.01) == 1
    paces = iter([0.001, 0.002, 60.0])
    assert wait_for(bus, lambda: next(paces), lambda pace: pace == 60, recheck_s=0.001) == 60


def test_a_stop_ends_waits_that_are_on_and_those_that_begin_later(bus: Bus) -> None:
    """After a stop nothing is looked at but by the first look; a wake ends only the pause."""
    stop, looks = StopEvent(), []

    def look() -> None:
        looks.append(len(looks))
        (stop.wake, stop.set)[len(looks) - 1]()

    wait_for(bus, look, recheck_s=60, stop=stop)
    assert looks == [0, 1]
    wait_for(bus, lambda: looks.append(2), recheck_s=60, stop=stop)
    assert looks == [0, 1, 2]


def test_a_pause_is_whole_whatever_rings_unless_it_is_stopped(bus: Bus) -> None:
    stop = StopEvent()
    with listen(bus, stop) as listener:
        bus.publish("note", from_agent="bob")
        begun = time.monotonic()
        listener.pause(0.05)
        assert time.monotonic() - begun >= 0.05
        threading.Timer(0.05, stop.set).start()
        listener.pause(60)
        assert time.monotonic() - begun < PROMPT_S


def test_raw_writer_is_seen_by_the_look_that_comes_anyway(bus: Bus, bus_dir: Path) -> None:
    """M-08, PITFALLS 11: it rings no bell, so the wait runs out, and then the message is there."""
    with listen(bus) as listener:
        raw_sql(
            bus_dir,
            "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('m', 1, 'raw', 'note')",
        )
        assert not listener.wait(0.05)
    assert [message.id for message in bus.read()] == ["m"]


def test_raw_writer_is_noticed_by_asking(bus: Bus, bus_dir: Path) -> None:
    """M-08: without inotify the question is put to SQLite, which knows of every commit."""
    with Listener(bus.layout.doorbell, file_of(bus), use_inotify=False) as listener:
        raw_sql(bus_dir, "INSERT INTO cursors VALUES ('raw', 0, 1, NULL)")
        assert listener.wait(30)


def test_deleted_doorbell_delays_and_no_more(bus: Bus) -> None:
    """X-10: the next publisher makes a new one, and waits go on being bounded."""
    with listen(bus) as listener:
        os.unlink(bus.layout.doorbell)
        with Bus.open(bus.layout.directory) as other:
            other.publish("note", from_agent="bob")
            listener.wait(0.05)
            listener.wait(0.05)
            assert [message.seq for message in bus.read()] == [1]
    with listen(bus) as listener:
        bus.publish("note", from_agent="bob")
        assert listener.wait(30)


def test_removed_watch_is_set_up_again(bus: Bus) -> None:
    """PITFALLS 11: a watch that the system dropped is not a waiter that hangs."""
    with listen(bus) as listener:
        os.unlink(bus.layout.doorbell)  # the last name of the file, and nobody has it open
        listener.wait(30)
        with Bus.open(bus.layout.directory) as other:
            other.publish("note", from_agent="bob")
            assert listener.wait(30)


def test_bell_that_cannot_ring_fails_no_publish(bus: Bus) -> None:
    """X-10, promise 1."""
    Path(bus.layout.doorbell).unlink(missing_ok=True)
    Path(bus.layout.doorbell).mkdir()
    assert bus.publish("note", from_agent="bob").seq == 1


def test_listener_falls_back_when_inotify_is_used_up(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PITFALLS 8: instances are few for each user; without one, waiting asks."""

    def none_left(path: str) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(doorbell, "_Watch", none_left)
    with listen(bus) as listener, ThreadPoolExecutor(1) as other:
        assert not listener.wait(0.02)
        other.submit(bus.publish, "note", from_agent="bob").result()
        assert listener.wait(30)


@pytest.mark.slow
def test_listeners_give_their_descriptors_back(bus: Bus) -> None:
    """PITFALLS 8: a hundred listeners one after another leave none."""
    listen(bus).close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with listen(bus) as listener:
            listener.wait(0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_bell_closed_while_another_thread_rings_harms_no_other_file(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pitfall 1: a descriptor's number is soon another file's, and that may be the bus."""
    bus.publish("note", from_agent="bob")
    victims, write = [tmp_path / str(number) for number in range(8)], os.pwrite
    opened: list[int] = []

    def write_late(fd: int, data: bytes, offset: int) -> int:
        bus.close()  # as another thread may, at this very moment
        opened.extend(os.open(path, os.O_RDWR | os.O_CREAT) for path in victims)
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", write_late)
    bus._doorbell.ring()
    for fd in opened:
        os.close(fd)
    assert len(opened) == len(victims)
    assert [path.read_bytes() for path in victims] == [b""] * len(victims)
