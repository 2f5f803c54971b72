"""Every writer of data, at a reader that is late, a descriptor that doesn't block, a full disk.

A write of which the system takes a part loses nothing, and one that fails is an error.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pytest

from ackbus import Bus, Draft, Exporter

from ..conftest import wait_until
from .conftest import BUS, error_of

pytestmark = pytest.mark.slow

#: How many messages there are: their lines are far more than a pipe takes at once.
MESSAGES = 2000

#: Each writes the messages, or as much.
WRITERS = {
    "read": ["read", "--json", "--limit", "10000"],
    "poll": ["poll", "reader", "--json", "--limit", "10000"],
    "tail": ["tail", "-n", "10000"],
    "replay": ["replay", "--from", "1"],
    "search": ["search", "sentence", "--limit", "1000", "--json"],
    "blob get": ["blob", "get", "{blob}"],
    "git-textconv": ["git-textconv", "{jsonl}"],
    "git-clean": ["git-clean", ".worker-state/bus.jsonl"],
}

#: With the second, which containers often set, Python's own streams have no buffer.
BUFFERS = [{}, {"PYTHONUNBUFFERED": "1"}]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of git with a bus that has a lot to print."""
    folder = tmp_path_factory.mktemp("project")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    with Bus.init(folder / ".worker-state") as bus:
        bus.heartbeats.beat("reader")
        text = "a sentence that an agent wrote to another one"
        bus.publish_many(
            Draft("note", text, from_agent="writer", to_agent="reader") for _ in range(MESSAGES)
        )
        bus.blobs.put(os.urandom(300_000))
        Exporter(bus).export_once()
    return folder


@pytest.fixture
def words(place: Path, request: pytest.FixtureRequest) -> list[str]:
    """The words of the writer that a test is of."""
    (blob,) = (path.name for path in (place / ".worker-state/blobs").rglob("sha256-*"))
    jsonl = str(place / ".worker-state/bus.jsonl")
    given: list[str] = WRITERS[request.param]
    return [word.format(blob=blob, jsonl=jsonl) for word in given]


each_writer = pytest.mark.parametrize("words", WRITERS, indirect=True)
each_buffer = pytest.mark.parametrize("buffer", BUFFERS, ids=["buffered", "unbuffered"])


@contextmanager
def running(
    words: list[str], place: Path, env: dict[str, str], stdout: int
) -> Iterator["subprocess.Popen[bytes]"]:
    """The installed command, writing to a descriptor."""
    jsonl = place / ".worker-state/bus.jsonl"
    with jsonl.open("rb") as stdin:
        process = subprocess.Popen(
            [BUS, *words], cwd=place, env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def expected(words: list[str], place: Path, env: dict[str, str]) -> bytes:
    """All that it writes, to a file: the same whatever its buffers are, so it is asked once."""
    target = place / f"expected of {words[0]}"
    if not target.exists():
        with target.open("wb") as file, running(words, place, env, file.fileno()) as process:
            assert process.wait(60) == 0
    data = target.read_bytes()
    assert len(data) > 150_000
    return data


def stands_still(reading: int, process: "subprocess.Popen[bytes]") -> bool:
    """Whether a writer has filled its pipe and sleeps."""
    waiting = int.from_bytes(ioctl(reading, FIONREAD, bytes(4)), "little")
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return waiting > 60_000 and state == "S"


def all_of(reading: int) -> bytes:
    """All bytes of a pipe up to its end."""
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read()


@pytest.mark.slow
@each_writer
@each_buffer
@pytest.mark.parametrize("blocks", [True, False])
def test_a_reader_that_is_late_gets_all(
    words: list[str], buffer: dict[str, str], blocks: bool, place: Path, bus_env: dict[str, str]
) -> None:
    """The writer is suspended and goes on meanwhile, so that its write ends with a part."""
    env = bus_env | buffer
    data = expected(words, place, env)
    reading, writing = os.pipe()
    os.set_blocking(writing, blocks)
    with running(words, place, env, writing) as process:
        os.close(writing)
        wait_until(lambda: stands_still(reading, process))
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        assert all_of(reading) == data
        assert process.wait(60) == 0


@each_writer
@each_buffer
def test_a_full_disk_is_an_error(
    words: list[str], buffer: dict[str, str], place: Path, bus_env: dict[str, str]
) -> None:
    with (
        open("/dev/full", "wb") as full,
        running(words, place, bus_env | buffer, full.fileno()) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert (process.returncode, error_of(err.decode())) == (1, "No space left on device")


@each_writer
@each_buffer
def test_a_closed_output_is_an_error(
    words: list[str], buffer: dict[str, str], place: Path, bus_env: dict[str, str]
) -> None:
    """Its number may not go to another file, nor end the writer as if all was said."""
    closing = ["sh", "-c", 'exec "$@" >&-', "sh", BUS, *words]
    with (place / ".worker-state/bus.jsonl").open("rb") as stdin:
        done = subprocess.run(
            closing,
            cwd=place,
            env=bus_env | buffer,
            stdin=stdin,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    told = error_of(done.stderr.decode())
    assert (done.returncode, told) == (1, "the standard output is closed")


#: What the parser of the command line prints by itself, and what programs take over.
TOLD = [
    *(["--help"], ["--version"], ["task", "-h"], ["publish", "--help"]),
    *(["completion", "bash"], ["prime"], ["where"], ["prompt", "reader"]),
]


@pytest.mark.parametrize("words", TOLD, ids=" ".join)
@pytest.mark.parametrize(
    ("sink", "why"),
    [(">&-", "the standard output is closed"), (">/dev/full", "No space left on device")],
)
def test_help_that_reaches_nobody_is_an_error(
    words: list[str], sink: str, why: str, place: Path, bus_env: dict[str, str]
) -> None:
    """`bus --help >&-` ended with 0: the parser takes a stream that is not there for none."""
    command = ["sh", "-c", f'exec "$@" {sink}', "sh", BUS, *words]
    done = subprocess.run(
        command, cwd=place, env=bus_env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"bus: {why}\n")


@each_writer
@each_buffer
def test_a_reader_that_left_ends_the_writer(
    words: list[str], buffer: dict[str, str], place: Path, bus_env: dict[str, str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with running(words, place, bus_env | buffer, writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")
