"""Checkpoints: beside the writers, in time, and never in the way."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite import checkpoints

from ..programs import connect, raw_sql, run_program

PAGE = 4096


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is long at a fortieth of the usual length."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", 50)
    monkeypatch.setattr(checkpoints, "LONG_PAGES", 200)


def wal_pages(bus_dir: Path) -> float:
    try:
        return (bus_dir / "bus.db-wal").stat().st_size / PAGE
    except FileNotFoundError:
        return 0


def publish(bus: Bus, count: int) -> None:
    for _ in range(count):
        bus.publish("note", "x" * 500, from_agent="ann")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_log_stays_short_under_constant_writing(bus_dir: Path) -> None:
    """Issue 5, item 2: it restarts, though something always comes."""
    with Bus.open(bus_dir) as bus:
        publish(bus, 6000)
        file_of(bus).checkpointer.wait()
    # Of some 24,000 that were written; the thread may get a processor late.
    assert wal_pages(bus_dir) < 12_000


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_writers_that_each_write_once_look_too(bus: Bus, bus_dir: Path) -> None:
    """A program that serves each request in a thread of its own."""
    for _ in range(60):
        thread = threading.Thread(target=publish, args=(bus, 1))
        thread.start()
        thread.join()
        file_of(bus).checkpointer.wait()
    assert wal_pages(bus_dir) < 150  # of some 240 that were written


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_reader_that_stays_stops_no_publisher(bus: Bus, bus_dir: Path) -> None:
    """The log grows meanwhile, and restarts once the reader has gone."""
    with closing(connect(bus_dir)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        publish(bus, 300)
        assert wal_pages(bus_dir) > 800
    publish(bus, 1000)
    file_of(bus).checkpointer.wait()
    grown = wal_pages(bus_dir)
    for _ in range(6):
        publish(bus, 50)
        file_of(bus).checkpointer.wait()  # on a busy machine it would come later
    assert wal_pages(bus_dir) == grown


def test_short_log_stays_behind_and_is_read_by_the_next(bus_dir: Path) -> None:
    """A command of a shell does not wait for the disk when it ends."""
    with Bus.open(bus_dir) as bus:
        bus.publish("note", from_agent="ann")
    assert wal_pages(bus_dir) > 0
    assert raw_sql(bus_dir, "SELECT count(*) FROM messages") == [[1]]


def test_log_of_some_length_is_brought_over_by_the_last(bus_dir: Path) -> None:
    with Bus.open(bus_dir) as bus:
        publish(bus, 100)
        assert wal_pages(bus_dir) > checkpoints.LEFT_PAGES
    assert wal_pages(bus_dir) == 0


@pytest.mark.slow
def test_forked_child_can_open_the_bus_whatever_the_thread_does(bus_dir: Path) -> None:
    """Pitfall 2 of forks: what SQLite has locked in a thread stays locked in the child."""
    out = run_program(
        """
        import os, signal, sys
        from ackbus import Bus
        from ackbus.schema.sqlite import checkpoints
        from ackbus.schema.queries import file_of
        checkpoints.CHECKPOINT_PAGES = 1
        bus = Bus.open(sys.argv[1])
        ended = []
        for _ in range(40):
            for _ in range(60):
                bus.publish("note", "x" * 2000, from_agent="ann")
            file_of(bus).checkpointer.look(file_of(bus).connection)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                with Bus.open(sys.argv[1]) as own:
                    own.publish("child", from_agent="ann")
                os._exit(0)
            ended.append(os.waitpid(child, 0)[1])
        print(set(ended))
        """,
        bus_dir,
    )
    assert out == "{0}\n"


def test_descriptors_that_have_run_out_make_no_noise(bus_dir: Path) -> None:
    """The publisher has committed; the next look tries again."""
    out = run_program(
        """
        import os, resource, sys
        from ackbus import Bus
        from ackbus.schema.sqlite import checkpoints
        from ackbus.schema.queries import file_of
        checkpoints.CHECKPOINT_PAGES = 1
        bus = Bus.open(sys.argv[1])
        bus.publish("note", from_agent="ann")
        file_of(bus).checkpointer.wait()
        highest = os.dup(0)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
        sys.stderr = sys.stdout
        for _ in range(300):
            bus.publish("note", from_agent="ann")
        file_of(bus).checkpointer.wait()
        print(bus.log.newest_seq())
        """,
        bus_dir,
    )
    assert out == "301\n"
