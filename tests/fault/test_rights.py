"""Rights that are missing, or are lost under those who use the bus: one clear line, and no harm."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus.doorbell import ring

from ..concurrency.actors import StartActor, actor_starter
from ..conftest import wait_until
from ..sizes import case
from .evidence import raw_rows

pytestmark = pytest.mark.slow

#: Root passes over modes; without these two capabilities it is held to them as anybody.
_DROPPED = "-dac_override,-dac_read_search"
AS_ANYBODY = (
    ["setpriv", f"--bounding-set={_DROPPED}", f"--inh-caps={_DROPPED}"] if os.geteuid() == 0 else []
)

#: Some user who is not this one.
STRANGER = 65534


@pytest.fixture
def held_to_modes(tmp_path: Path) -> None:
    """Skips the test where root can't give up its powers."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if AS_ANYBODY and shutil.which("setpriv") is None:
        pytest.skip("root is not held to modes, and there is no setpriv here")
    done = subprocess.run([*AS_ANYBODY, "touch", closed / "file"], capture_output=True, check=False)
    if done.returncode == 0:
        pytest.skip("who runs this is not held to modes")


@pytest.fixture
def start_user(tmp_path: Path, held_to_modes: None) -> Iterator[StartActor]:
    """Starts a role of users.py in a process that is held to modes."""
    yield from actor_starter(Path(__file__).with_name("users.py"), tmp_path, AS_ANYBODY)


COMMANDS = [
    ("publish", "note", "text", "--from", "ann"),
    ("publish", "note", "x" * 5000, "--from", "ann"),
    ("poll", "bob"),
    ("ack", "bob", "1"),
    ("export",),
    ("search", "text"),
]


@pytest.mark.usefixtures("held_to_modes")
@pytest.mark.parametrize(
    ("name", "mode", "works"),
    [
        case(".", 0o500, 0, by_day=False),
        case(".", 0o000, 0, by_day=True),
        case("bus.db", 0o400, 0, by_day=True),
        case("bus.db-wal", 0o400, 0, by_day=True),
        case("bus.db-shm", 0o000, 0, by_day=True),
        case("write.lock", 0o400, 2, by_day=True),
        case("blobs", 0o500, 5, by_day=True),
        case("doorbell", 0o400, 6, by_day=True),
    ],
    ids=lambda value: f"{value:o}" if isinstance(value, int) else value,
)
def test_a_command_without_rights_fails_in_one_line_and_stores_nothing(
    name: str, mode: int, works: int, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """M-06, M-29, promise 11: and what needs no such right is done.

    Args:
        works: how many of the commands get along without the right.
    """
    with Bus.open(bus_dir) as bus:
        bus.publish("note", "text", from_agent="ann")  # the log stays behind, since it is short
        ring(bus)
    path = bus_dir / name
    usual = path.stat().st_mode
    path.chmod(mode)
    failed = 0
    for command in COMMANDS:
        done = subprocess.run(
            [*AS_ANYBODY, "bus", *command, "--dir", bus_dir],
            env=bus_env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1)
        if done.returncode:
            failed += 1
            (line,) = done.stderr.splitlines()
            assert line.startswith("bus: ")
            assert str(bus_dir) in line
            assert any(why in line for why in ("read-only", "ermission denied"))
    path.chmod(usual)
    assert len(COMMANDS) - failed == works
    assert len(raw_rows(bus_dir)) == 1 + (2 if works == 6 else works == 5)
    with Bus.open(bus_dir) as bus:
        bus.publish("note", from_agent="ann")


def closed(bus_dir: Path) -> None:
    bus_dir.chmod(0o000)


def given_away(bus_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    for path in (bus_dir, *bus_dir.rglob("*")):
        # The users are at work: a temporary file may be gone by now.
        with contextlib.suppress(FileNotFoundError):
            os.chown(path, STRANGER, STRANGER)


@pytest.mark.parametrize("harm", [closed, given_away])
def test_users_who_lose_their_rights_end_in_one_line_and_lose_nothing(
    harm: Callable[[Path], None], start_user: StartActor, bus_dir: Path
) -> None:
    """Promise 1: what they were told is stored is there when the rights are back.

    An exporter waits for that.
    """
    roles = ("publisher", "large_publisher", "thread_publisher", "acknowledger", "loop")
    roles += ("claimer", "follower")
    exporter = start_user("exporter", bus_dir)
    users = [start_user(role, bus_dir) for role in roles]
    for user in users:
        user.wait_told(1)
    jsonl = bus_dir / "bus.jsonl"
    wait_until(lambda: jsonl.stat().st_size > 0)  # the exporter is at work
    harm(bus_dir)
    told = [user.end() for user in users]
    for role, (*_, (kind, text)) in zip(roles, told, strict=True):
        assert kind == "BusUnusable", role
        assert text.startswith(("the bus in ", "a blob can't be written in ")), text
        assert "ermission denied" in text
        assert "\n" not in text
    bus_dir.chmod(0o700)
    for path in (bus_dir, *bus_dir.rglob("*")):
        os.chown(path, os.geteuid(), os.getegid())
    stored = {id for _, id, *_ in raw_rows(bus_dir)}
    for ids in told[:3]:
        assert set(ids[:-1]) <= stored
    wait_until(lambda: jsonl.read_bytes().count(b"\n") == len(stored))
    exporter.kill()


def test_users_go_on_with_what_they_have_open_when_the_files_are_closed(
    start_user: StartActor, bus_dir: Path
) -> None:
    """SQLite asks for the right once; who comes later is refused, and each thread comes once."""
    going_on = [start_user(role, bus_dir) for role in ("publisher", "acknowledger", "exporter")]
    new_each_time = start_user("thread_publisher", bus_dir)
    for user in (*going_on, new_each_time):
        user.wait_told(1)
    for name in ("bus.db", "bus.db-wal", "bus.db-shm"):
        (bus_dir / name).chmod(0o400)
    kind, text = new_each_time.end()[-1]
    assert kind == "BusUnusable"
    assert text.endswith("chmod bus.db, bus.db-wal, bus.db-shm")
    for user in going_on[:2]:
        user.wait_told(len(user.told()) + 20)
    told = [user.kill() for user in going_on]
    for name in ("bus.db", "bus.db-wal", "bus.db-shm"):
        (bus_dir / name).chmod(0o600)
    assert set(told[0]) <= {id for _, id, *_ in raw_rows(bus_dir)}
    with Bus.open(bus_dir) as bus:
        wait_until(lambda: bus.publish("note", from_agent="ann").seq > 0)
