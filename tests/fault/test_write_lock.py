"""A process that holds the write lock and does not move: the others give up, and come back."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import BusBusy
from ackbus.schema.directory.file_lock import FileLock

from ..concurrency.actors import Actor, StartActor
from ..conftest import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def lock(path: Path) -> Iterator[FileLock]:
    lock = FileLock(str(path))
    yield lock
    lock.close()


@contextmanager
def taken(path: Path) -> Iterator[Callable[[], None]]:
    """The lock is somebody else's until the block ends, or what it is given is called."""
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(other, fcntl.LOCK_UN)


@pytest.fixture
def settle() -> Callable[[], None]:
    """Returns when no waiter queues any more; the lock at hand may keep an idle one."""
    before = waiters()
    return lambda: wait_until(lambda: waiters() <= before + 1)


def descriptors_of(path: Path) -> int:
    """The number of descriptors of this process that are of a file."""
    status = path.stat()
    return sum(
        os.path.samestat(os.fstat(int(name)), status)
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
    )


def is_free(path: Path) -> bool:
    with path.open("w") as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def waiters() -> int:
    return sum(thread.name == "ackbus-lock" for thread in threading.enumerate())


def test_writers_give_up_on_a_frozen_holder_and_come_back(start: StartActor, bus_dir: Path) -> None:
    """M-28, M-29: SIGSTOP of a publisher that is caught in its transaction, again and again."""
    busy = 0
    with Bus.open(bus_dir, write_timeout_s=0.15) as bus:
        holder = start("holder", bus_dir)
        holder.wait_told(1)
        holder.stop()
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(BusBusy, match="stopped process"):
                bus.publish("work", from_agent="ours")
            assert time.monotonic() - began < 15
            busy += 1
        holder.resume()
        holder.kill()
        wait_until(lambda: publishes(bus, "after"))
        assert [message.id for message in bus.read()] == ["after"]
    assert busy == 3


@pytest.mark.slow
def test_publishers_go_on_when_a_frozen_one_does(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """Promise 11: freezing and thawing publishers at random moments costs time and no message."""
    publishers: list[Actor] = [start("publisher", bus_dir, f"p-{n}", 0) for n in range(3)]
    for turn in range(15):
        victim = publishers[turn % 3]
        victim.wait_told(len(victim.told()) + 5)
        victim.stop()
        victim.resume()
    told = [id for publisher in publishers for id in publisher.kill()]
    assert set(told) <= {message.id for message in bus.read()}


def publishes(bus: Bus, id: str) -> bool:
    try:
        return bus.publish("work", from_agent="ours", id=id).seq > 0
    except BusBusy:
        return False


def test_lock_is_had_again_after_a_wait_that_was_given_up(
    path: Path, lock: FileLock, settle: Callable[[], None]
) -> None:
    """M-28: the waiter that was left in the queue gives the lock back when its turn comes."""
    for _ in range(3):
        with taken(path), pytest.raises(BusBusy):
            lock.acquire(0.02)
        lock.acquire(20)
        assert not is_free(path)
        lock.release()
    settle()
    assert is_free(path), "a waiter that nobody waits for keeps the lock"


def test_giving_up_again_and_again_takes_one_thread_and_one_descriptor(
    path: Path, lock: FileLock, settle: Callable[[], None]
) -> None:
    """Pitfall 8: descriptors ran out. A frozen holder costs each lock one waiter, however often."""
    before = set(threading.enumerate())
    with taken(path):
        for _ in range(10):
            with pytest.raises(BusBusy):
                lock.acquire(0.01)
        assert len(set(threading.enumerate()) - before) == 1
        assert descriptors_of(path) == 2  # the holder's and ours
    lock.acquire(20)
    lock.release()
    settle()
    assert is_free(path)


def test_a_lock_closed_while_it_queues_is_given_back(path: Path) -> None:
    """The thread that still queues closes the descriptor after its turn."""
    lock = FileLock(str(path))
    with taken(path):
        with pytest.raises(BusBusy):
            lock.acquire(0.01)
        lock.close()
    wait_until(lambda: descriptors_of(path) == 0)
    assert is_free(path)


def test_giving_up_at_the_moment_of_the_grant_leaks_nothing(
    path: Path, lock: FileLock, settle: Callable[[], None]
) -> None:
    """The holder leaves just when the patience of the waiter ends; 60 tries around that moment.

    A busy machine gets as many rounds of them as it needs to meet it.
    """
    outcomes: set[str] = set()
    for number in (*range(60), *chain(*repeat(range(60), 20))):
        if number == 0 and outcomes == {"busy", "granted"}:
            break
        with taken(path) as leave:
            timer = threading.Timer(0.005 + (number - 30) * 0.0001, leave)
            timer.start()
            try:
                lock.acquire(0.005)
            except BusBusy:
                outcomes.add("busy")
            else:
                outcomes.add("granted")
                lock.release()
            timer.join()
        lock.acquire(20)
        lock.release()
    assert outcomes == {"busy", "granted"}, "the tries missed the moment"
    settle()
    assert is_free(path)


def test_an_interrupted_wait_leaves_no_lock_behind(
    path: Path, lock: FileLock, settle: Callable[[], None]
) -> None:
    """Ctrl-C in a process that lives on: a lock granted later is nobody's, and is given back."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        with taken(path):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                lock.acquire(10)
    finally:
        signal.signal(signal.SIGALRM, previous)
    lock.acquire(20)
    lock.release()
    settle()
    assert is_free(path)


def test_a_forked_child_does_not_keep_an_abandoned_lock(path: Path, lock: FileLock) -> None:
    """Closing a descriptor frees its lock only if no child has it too."""
    with taken(path) as leave:
        with pytest.raises(BusBusy):
            lock.acquire(0.02)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # lives until the parent says so, with all that it inherited
            os._exit(0)
        leave()
    os.close(reader)
    try:
        wait_until(lambda: is_free(path))
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_queue_is_served_by_threads_that_all_wait(bus_dir: Path) -> None:
    """16 threads behind one holder: each gets in after it, in a bounded time."""
    with Bus.open(bus_dir) as bus:
        threads = [
            threading.Thread(target=bus.publish, args=("work",), kwargs={"from_agent": f"t-{n}"})
            for n in range(16)
        ]
        with bus.transaction():
            for thread in threads:
                thread.start()
            assert waiters() <= 17
        for thread in threads:
            thread.join(60)
        assert bus.log.newest_seq() == 16
