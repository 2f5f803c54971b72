"""Issue 31, item 19: as the first process of a container a command hears SIGTERM.

The kernel keeps default actions from that process, so that only what has a handler ends.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import wait_until
from .conftest import BUS

#: Commands that go on until something comes, or until they are told to end.
WAITING = {
    "tail": ["tail", "-f"],
    "poll": ["poll", "ann", "--wait", "1000"],
    "notify": ["notify"],
    "replay": ["replay", "--from", "1", "--follow"],
    "watch": ["queue", "list", "--watch"],
    "listen": ["listen", "ann", "--", "true"],
    "run": ["run", "--type", "work", "--", "true"],
    "export": ["export", "--follow"],
}

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def first_processes() -> bool:
    """Whether this kernel and user may make a first process."""
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def child_of(pid: int) -> int | None:
    """The one child of a process, once it is the command."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not listed:
        return None
    name = Path(f"/proc/{listed[0]}/cmdline").read_bytes()
    return int(listed[0]) if os.fsencode(BUS) in name and b"unshare" not in name else None


@pytest.mark.slow
@pytest.mark.parametrize("words", WAITING.values(), ids=WAITING)
def test_sigterm_ends_what_waits_as_the_first_process(
    words: list[str], bus_dir: Path, bus_env: dict[str, str]
) -> None:
    if not first_processes():
        pytest.skip("this kernel lets this user make no first process")
    with Bus.open(bus_dir) as bus:
        bus.heartbeats.beat("ann")
    process = subprocess.Popen(
        [*UNSHARE, BUS, *words],
        cwd=bus_dir.parent,
        env=bus_env | {"BUS_AGENT": "ann", "BUS_NOTIFY_BACKEND": "stderr"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: child_of(process.pid))
        pid = child_of(process.pid)
        assert pid is not None
        wait_until(lambda: has_begun_to_wait(pid))
        os.kill(pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 128 + signal.SIGTERM), err
        assert b"Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def has_begun_to_wait(pid: int) -> bool:
    """Whether a process listens for what comes, and sleeps."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    names = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(path))
    return state == "S" and any("inotify" in name or "bus.db" in name for name in names)
