"""Signals go to the process that holds a lock, whatever a file says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus.schema.directory.lock_holders import holding_process, signal_holder
from ackbus.schema.errors import Refused

HOLDING = """
import os, sys, time
from ackbus.schema.directory.file_lock import FileLock
lock = FileLock(sys.argv[1])
assert lock.try_acquire()
if len(sys.argv) > 2:
    os.setuid(int(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""


def _holder(path: Path, *words: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path), *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("number", ["-1", "0", "1", "bystander", "", "99999999999999999999", "x"])
def test_the_holder_is_told_whatever_the_file_says(tmp_path: Path, number: str) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(["sleep", "60"]) as bystander, _holder(path) as holder:
        path.write_text(str(bystander.pid) if number == "bystander" else number)
        assert holding_process(str(path)) == holder.pid
        assert signal_holder(str(path), signal.SIGTERM, "it") == holder.pid
        assert holder.wait(20) == -signal.SIGTERM
        assert bystander.poll() is None
        with pytest.raises(Refused, match="end it where it was started"):
            signal_holder(str(path), signal.SIGTERM, "it")
        bystander.kill()


def test_a_lock_by_another_name_tells_nobody(tmp_path: Path) -> None:
    """The lock of some other program of this user's, as a hard link where a lock is looked for."""
    path = tmp_path / "lock"
    with _holder(path) as holder:
        os.link(path, tmp_path / "again")
        with pytest.raises(Refused):
            signal_holder(str(tmp_path / "again"), signal.SIGTERM, "it")
        assert holder.poll() is None
        holder.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_another_users_process_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _holder(path, "61234") as holder:
        assert holding_process(str(path)) is None
        with pytest.raises(Refused, match="in its container or as its user"):
            signal_holder(str(path), signal.SIGTERM, "it")
        assert holder.poll() is None
        holder.kill()
