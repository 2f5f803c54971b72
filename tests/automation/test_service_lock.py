"""The lock of the service: one at a time, and whoever asks for it does not get in its way."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from ackbus.automation.service_lock import (
    NoService,
    ServiceLock,
    ServiceRuns,
    is_running,
    running_pid,
)
from ackbus.errors import AckbusError

from ..conftest import wait_until

HOLDING = """
import sys, time
from pathlib import Path
from ackbus.automation.service_lock import ServiceLock
lock = ServiceLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.requirement("D-131")
def test_lock_that_is_held_has_the_number_of_its_process(tmp_path: Path) -> None:
    with ServiceLock(tmp_path) as lock:
        assert not is_running(tmp_path)
        lock.acquire()
        assert (is_running(tmp_path), running_pid(tmp_path)) == (True, os.getpid())
        with (
            ServiceLock(tmp_path) as second,
            pytest.raises(ServiceRuns, match=f"process {os.getpid()} has"),
        ):
            second.acquire()
        assert running_pid(tmp_path) == os.getpid()
    assert not is_running(tmp_path)
    with pytest.raises(NoService):
        running_pid(tmp_path)


@pytest.mark.requirement("D-131")
def test_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert running_pid(tmp_path) == process.pid
        process.kill()
    assert not is_running(tmp_path)
    with ServiceLock(tmp_path) as lock:
        lock.acquire()


def test_child_of_a_service_does_not_hold_its_lock(tmp_path: Path) -> None:
    with ServiceLock(tmp_path) as lock:
        lock.acquire()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the test has looked
            os._exit(0)
        lock.close()
        with ServiceLock(tmp_path) as next_one:
            next_one.acquire()
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


def test_those_who_ask_for_a_service_do_not_keep_one_from_beginning(tmp_path: Path) -> None:
    over, asked = Event(), [0]

    def ask() -> None:
        while not over.is_set():
            is_running(tmp_path)
            asked[0] += 1

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            with ServiceLock(tmp_path) as lock:
                lock.acquire()
        wait_until(lambda: asked[0] > 1000)
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_folder_that_can_not_be_made_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AckbusError, match="file/state can't be made: Not a directory"):
        ServiceLock(tmp_path / "file/state")
