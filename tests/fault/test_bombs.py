"""Files and rows of a few bytes that stand for gigabytes: a clear line, soon, and little memory.

Each command runs as a process of its own with a limit on its address space.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import orjson
import pytest
import zstandard

from ackbus import Bus
from ackbus.bus.log import archive_reader
from ackbus.bus.log.archive_reader import DamagedFrame, lines_of_frame, segment_name
from ackbus.export.archive_writer import Archiver

from ..programs import connect
from ..sizes import sampled

#: Room besides what the interpreter and its libraries map, in bytes.
ROOM_BYTES = 512 * 1024**2

#: How long a command may hang until it counts as one that never ends, in seconds.
HANGS_S = 120

_RUN = "import sys; from ackbus.cli import main; sys.argv[0] = 'bus'; sys.exit(main())"


def run(
    bus_dir: Path, *words: str, room_bytes: int = ROOM_BYTES
) -> "subprocess.CompletedProcess[str]":
    """Run a command with little memory."""
    text = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({room_bytes},) * 2); {_RUN}"
    return subprocess.run(
        [sys.executable, "-c", text, *words, "--dir", str(bus_dir)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def end_well(done: "subprocess.CompletedProcess[str]") -> None:
    assert "Traceback" not in done.stderr
    assert "MemoryError" not in done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode in (0, 1, 2, 3, 4), done


def zeros(size: int) -> bytes:
    """A frame of zeros."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    piece = b"0" * 2**20
    parts = [compressor.compress(piece) for _ in range(size // 2**20)]
    return b"".join([*parts, compressor.flush()])


def repeated_lines(line: bytes) -> bytes:
    """A frame of one line, millions of times."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    block = (line + b"\n") * 4096
    parts = [compressor.compress(block) for _ in range(2**31 // len(block))]
    return b"".join([*parts, compressor.flush()])


def lying_header(line: bytes) -> bytes:
    """A frame that says that it holds 2^60 bytes."""
    return b"\x28\xb5\x2f\xfd\xe0" + (2**60).to_bytes(8, "little") + b"\x01\x00\x00"


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda line: zeros(4 * 2**30),
    "lines": repeated_lines,
    "header": lying_header,
    "many frames": lambda line: zstandard.ZstdCompressor().compress(line + b"\n") * 200_000,
    "random": lambda line: bytes(range(256)) * 4096,
}


#: Commands that read an archive.
READERS = [("show", "1"), ("read",), ("doctor", "--full"), ("search", "number"), ("verify",)]


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    line = orjson.dumps(
        {"seq": 1, "id": "a", "ts": "2026-01-01T00:00:00.000Z", "from": "a", "type": "t"}
    )
    return {name: make(line) for name, make in BOMBS.items()}


def archived(bus: Bus) -> None:
    for number in range(6):
        bus.publish("t", {"number": number}, from_agent="a", id=f"m{number}")
    with Archiver(bus) as archiver:
        archiver.archive(5)


def put(bus_dir: Path, data: bytes) -> None:
    """Put a bomb in the place of the segment, and have the tables say that it belongs there."""
    (bus_dir / "archive" / segment_name(1)).write_bytes(data)
    with closing(connect(bus_dir)) as connection, connection:
        connection.execute("UPDATE archive_frames SET start = 0, bytes = ?", (len(data),))
        connection.execute("UPDATE archive_segments SET bytes = ?", (len(data),))


@pytest.mark.slow
@pytest.mark.parametrize(("words", "bomb"), sampled(product(READERS, BOMBS), every=4))
def test_a_segment_that_stands_for_gigabytes_is_refused(
    bus: Bus, bus_dir: Path, bombs: dict[str, bytes], bomb: str, words: tuple[str, ...]
) -> None:
    archived(bus)
    put(bus_dir, bombs[bomb])
    end_well(run(bus_dir, *words))


@pytest.mark.slow
@pytest.mark.parametrize("bomb", ["zeros", "lines", "header", "random"])
def test_repair_of_such_a_segment_ends(
    bus: Bus, bus_dir: Path, bombs: dict[str, bytes], bomb: str
) -> None:
    archived(bus)
    put(bus_dir, bombs[bomb])
    end_well(run(bus_dir, "doctor", "--repair"))


@pytest.mark.parametrize("column", ["start", "bytes"])
@pytest.mark.parametrize("value", [-(2**62), -1, 2**40, 2**62])
def test_places_of_frames_that_are_none_allocate_nothing(
    bus: Bus, bus_dir: Path, column: str, value: int
) -> None:
    archived(bus)
    with closing(connect(bus_dir)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(f"UPDATE archive_frames SET {column} = ?", (value,))
    end_well(run(bus_dir, "show", "1"))


def test_a_frame_of_too_many_lines_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zstandard.ZstdCompressor().compress(b"{}\n" * 1001)
    with pytest.raises(DamagedFrame, match="more lines"):
        lines_of_frame([data])
    monkeypatch.setattr(archive_reader, "MAX_FRAME_BYTES", 2048)
    with pytest.raises(DamagedFrame, match="more than a bus writes"):
        lines_of_frame([zstandard.ZstdCompressor().compress(b"1" * 2049)])


def test_a_frame_tells_how_long_it_is() -> None:
    data = zstandard.ZstdCompressor().compress(b"{}\n" * 3)
    assert lines_of_frame([data + b"more"]) == ([b"{}"] * 3, len(data))
    with pytest.raises(DamagedFrame, match="end is missing"):
        lines_of_frame([data[:-1]])


def test_room_is_enough_for_ordinary_work(bus: Bus, bus_dir: Path) -> None:
    """Else the tests above would show nothing."""
    archived(bus)
    done = run(bus_dir, "read")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) >= 6
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != ROOM_BYTES


@pytest.mark.parametrize("words", [("doctor", "--full"), ("doctor", "--repair", "--dry-run")])
def test_a_write_ahead_log_that_is_nearly_empty_on_the_disk_is_not_read_whole(
    bus: Bus, bus_dir: Path, words: tuple[str, ...]
) -> None:
    """A TiB of zeros, whose frames looked whole: to look at them would take days."""
    bus.publish("note", from_agent="ann")
    bus.close()
    log = bus_dir / "bus.db-wal"
    log.touch(0o600)
    os.truncate(log, 1 << 40)
    end_well(run(bus_dir, *words))
