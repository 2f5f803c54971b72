"""An SQLite that is too old, a place without a write-ahead log: refused before a bus is made.

Each runs in a process of its own, with the real command: only the one fact is another.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus

COMMAND = """
import sys
import apsw
{fact}
from ackbus.cli import main
sys.exit(main())
"""

#: apsw is compiled with an SQLite of its own; it says that it is another.
OLD = 'apsw.sqlite_lib_version = lambda: "3.45.1"'

#: SQLite's own way of locking where a filesystem has no locks; it has no shared memory.
WITHOUT_SHARED_MEMORY = """
class Plain(apsw.VFS):
    def __init__(self):
        super().__init__("plain", "unix-dotfile", makedefault=True, exclude={"xShmMap"})
plain = Plain()
"""


def run(fact: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", COMMAND.format(fact=fact), *command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [("publish", "note", "text", "--from", "ann"), ("poll", "ann"), ("export",)],
    ids=lambda command: command[0],
)
def test_an_old_sqlite_touches_no_bus(command: tuple[str, ...], bus_dir: Path) -> None:
    """PITFALLS 2: the gate is on the way of every command."""
    before = {path.name: path.stat().st_mtime_ns for path in bus_dir.iterdir()}
    done = run(OLD, *command, "--dir", str(bus_dir))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("bus: SQLite 3.45.1 can corrupt a bus")
    assert line.endswith("install apsw 3.51.3 or later")
    assert {path.name: path.stat().st_mtime_ns for path in bus_dir.iterdir()} == before


@pytest.mark.slow
def test_an_old_sqlite_makes_no_bus_and_doctor_says_why(tmp_path: Path, bus_dir: Path) -> None:
    """PITFALLS 2."""
    assert run(OLD, "init", "--dir", str(tmp_path / "new")).returncode == 1
    assert not (tmp_path / "new").exists()
    done = run(OLD, "doctor", "--dir", str(bus_dir))
    assert done.returncode == 1
    assert done.stdout.startswith("bad   versions: ")
    assert "can corrupt a bus" in done.stdout.splitlines()[0]


def test_a_place_without_a_write_ahead_log_gets_no_bus(tmp_path: Path, bus_dir: Path) -> None:
    """PITFALLS 3: else readers and writers would keep each other out, in silence."""
    place = tmp_path / "new"
    done = run(WITHOUT_SHARED_MEMORY, "init", "--dir", str(place))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "put the bus on a local disk" in line
    assert not (place / "bus.db").exists()
    with Bus.init(place) as bus:
        assert bus.publish("note", from_agent="ann").seq == 1, "nothing is in the way"
    opened = run(WITHOUT_SHARED_MEMORY, "publish", "note", "--from", "ann", "--dir", str(bus_dir))
    assert opened.returncode == 1
    assert len(opened.stderr.splitlines()) == 1
