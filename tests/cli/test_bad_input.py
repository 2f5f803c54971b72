"""issue 2, Bad input: one clear line on stderr, the exit code, and the log as it was."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.message.names import MAX_PAYLOAD_BYTES, MAX_TYPE_CHARS
from ackbus.schema.sqlite.database import SCHEMA_VERSION

from ..conftest import Ended, RunBus
from .conftest import BUS, assert_error, error_of

PUBLISH = ("publish", "t", "--from", "a")


@pytest.fixture
def log(bus: Bus) -> Iterator[Bus]:
    """A bus with one message, whose log must be the same after the test."""
    bus.publish("first", {"n": 1}, from_agent="a", id="first")
    yield bus
    assert [message.id for message in Bus.open(bus.layout.directory).read()] == ["first"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("publish", "t", "--from", "a", "--to", "ghost", "--strict"), 3, ["ghost"]),
        ((*PUBLISH, "--data", '{"a":'), 2, ["--data", "JSON"]),
        ((*PUBLISH, "--data", ""), 2, ["JSON"]),
        ((*PUBLISH, "--data", "NaN"), 2, ["JSON"]),
        ((*PUBLISH, b"\xff\xfe"), 2, ["BODY", "UTF-8", "byte 0"]),
        ((*PUBLISH, "--data", b'"\xff"'), 2, ["--data", "UTF-8"]),
        (("publish", b"t\xff", "--from", "a"), 2, ["type"]),
        ((*PUBLISH, "--id", "first"), 3, ["first", "seq 1", "payload"]),
        ((*PUBLISH, "--reply-to", "nobody"), 3, ["nobody"]),
        (("publish", "t" * 10_000, "--from", "a"), 2, ["10000", str(MAX_TYPE_CHARS)]),
        (("publish", "t.*", "--from", "a"), 2, ["type"]),
        (("publish", "", "--from", "a"), 2, ["type"]),
        (("publish", "t", "--from", "a\x1b[31m"), 2, ["sender", "x1b"]),
        (("publish", "t", "--from", "a" * 1000), 2, ["1000"]),
        ((*PUBLISH, "--header", "k=" + "v" * 20_000), 2, ["headers"]),
        (("poll", "a\nb"), 2, ["agent name"]),
        (("poll", "a", "--type", "a..b"), 2, ["type pattern"]),
        (("ack", "a", "2"), 3, ["2", "1 to 1"]),
        (("ack", "a", "0"), 3, ["0"]),
        (("ack", "a", "9" * 30), 3, ["9" * 30]),
        (("ack", "a", "x"), 2, ["SEQ"]),
        (("blob", "get", "sha256-" + "0" * 64), 4, ["no blob"]),
        (("show", "nothing"), 4, ["nothing"]),
        (("replay", "--from", "9" * 30), 2, ["--from"]),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...], code: int, words: list[str], log: Bus, run_bus: RunBus
) -> None:
    assert_error(run_bus(*arguments), code, *words)


@pytest.mark.parametrize("command", [("init",), ("publish", "t", "--from", "a"), ("stats",)])
def test_directory_whose_name_is_no_utf8(
    command: tuple[str, ...], run_bus: RunBus, project: Path
) -> None:
    """SQLite could not open a file there: nothing is made."""
    assert_error(run_bus(*command, "--dir", b"d\xff"), 2, "not valid Unicode")
    assert list(project.iterdir()) == []


def test_ack_on_an_empty_log_says_that_it_is_empty(bus: Bus, run_bus: RunBus) -> None:
    assert_error(run_bus("ack", "a", "1"), 3, "the log is empty")


def test_invalid_utf8_and_malformed_json_from_files(
    log: Bus, run_bus: RunBus, project: Path
) -> None:
    (project / "latin1").write_bytes(b"caf\xe9")
    (project / "torn.json").write_bytes(b'{"a": ')
    assert_error(run_bus(*PUBLISH, "--file", "latin1"), 2, "latin1", "UTF-8", "byte 3")
    assert_error(run_bus(*PUBLISH, "-", stdin=b"\xff"), 2, "standard input", "UTF-8")
    assert_error(run_bus(*PUBLISH, "--data", "@torn.json"), 2, "torn.json", "JSON")
    assert_error(run_bus("publish", "--jsonl", stdin=b'{"type":"\xff"}\n'), 2, "line 1")


@pytest.mark.parametrize("source", [("-",), ("--file", "-"), ("--data", "-")])
def test_empty_standard_input_is_no_body(
    source: tuple[str, ...], log: Bus, run_bus: RunBus
) -> None:
    """PITFALLS 26: a command that failed before the pipe must not become an empty message."""
    assert_error(run_bus(*PUBLISH, *source, stdin=""), 2, "is empty", "may have failed", "'' as")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("lease renew x --agent a --token x", "--token must be a whole number"),
        ("lease renew x --agent a --token 0", "--token must be 1 or more"),
        ("replay --from 0", "--from must be 1 or more, and at most 9007199254740991"),
        ("replay --from lead", "--from takes a seq or a time here, not 'lead'"),
        ("verify --from lead", "--from takes a seq or a time here, not 'lead'"),
        ("timeline --to lead", "--to takes a seq or a time here, not 'lead'"),
        ("tail -n x", "--lines must be a whole number"),
        ("heartbeat a --progress x", "--progress must be a number"),
        ("torture --minutes x", "--minutes must be a number"),
        ("torture --minutes 0", "--minutes must be 0.02 or more"),
        ("ack a x", "SEQ must be a whole number"),
        ("parked drop a 0", "SEQ must be 1 or more, and at most 9007199254740991"),
        ("--dir X stats", "give --dir after the command"),
        ("lease --json list", "give --json after the command"),
        ("limit clear --json --queue q", "no option '--json'"),
        ("run --json -- cat", "no option '--json'"),
        ("publish t", "no agent is named: give --from AGENT, or set BUS_AGENT"),
        ("lease acquire x", "no agent is named: give --agent AGENT, or set BUS_AGENT"),
        ("lease acquire x --agent a --ttl x", "--ttl: 'x' is not a duration"),
        ("blob gc --older-than x", "--older-than: 'x' is not a duration"),
        ("heartbeat a --every x", "--every: 'x' is not a duration"),
        (
            "read --since 10x",
            "--since: '10x' is not a time like 2026-01-10T14:00:00Z; or give an age",
        ),
        ("mcp --agent=", "agent name must not be empty"),
        ("import - --map x=y", "--map: messages have no field 'x'"),
    ],
)
def test_errors_name_the_word_that_is_wrong_and_its_rule(
    line: str, error: str, log: Bus, run_bus: RunBus
) -> None:
    ended = run_bus(*line.split())
    assert_error(ended, 2)
    assert error_of(ended.err).startswith(error), ended


@pytest.mark.parametrize(
    "arguments",
    [
        (*PUBLISH, "--priority", "x" * 50_000),
        (*PUBLISH, "--header", "x" * 50_000),
        (*PUBLISH, "--payload-ref", "x" * 50_000),
        ("poll", "a", "--wait", "x" * 50_000),
        ("x" * 50_000,),
        ("import", "x" * 50_000),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_errors_are_lines_that_can_be_read(
    arguments: tuple[str, ...], log: Bus, run_bus: RunBus
) -> None:
    """However long what was wrong is, the line begins with what it is, and ends with the hint."""
    ended = run_bus(*arguments)
    assert ended.code != 0
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 1100


@pytest.mark.parametrize("group", [(), ("lease",), ("blob",), ("parked",)])
def test_group_without_a_command_shows_its_help(group: tuple[str, ...], run_bus: RunBus) -> None:
    """On stderr, laid out as --help lays it out: nothing was asked for that could be data."""
    shown = run_bus(*group)
    helped = run_bus(*group, "--help")
    assert (shown.code, shown.out) == (2, "")
    assert (helped.code, helped.err) == (0, "")
    assert shown.err == helped.out
    assert len(shown.err.splitlines()) > 5


@pytest.mark.parametrize("command", [(), ("publish",), ("poll",), ("lease",), ("lease", "renew")])
def test_h_is_help(command: tuple[str, ...], run_bus: RunBus) -> None:
    assert run_bus(*command, "-h") == run_bus(*command, "--help")


@pytest.mark.slow
def test_body_of_100_mb(log: Bus, project: Path, bus_env: dict[str, str]) -> None:
    """Nothing larger than the limit is read into memory, nor stored."""
    with open(project / "large", "wb") as file:
        file.truncate(100_000_000)
    for arguments in ("--file large", "- <large", "--data @large", "--data - <large"):
        done = subprocess.run(
            ["sh", "-c", f"ulimit -v 700000; exec {BUS} publish t --from a {arguments}"],
            capture_output=True,
            text=True,
            cwd=project,
            env=bus_env,
            check=False,
        )
        ended = Ended(done.returncode, done.stdout, done.stderr)
        assert_error(ended, 2, str(MAX_PAYLOAD_BYTES), "bus blob put")
    assert list(log.blobs) == []


def test_blob_that_is_missing_or_altered_is_said_in_the_message(
    run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """M-51: the message is delivered, and says why it has no payload."""
    bus.publish("t", "x" * 5000, from_agent="a")
    (ref,) = bus.blobs
    (bus_dir / "blobs" / ref).write_bytes(b"altered")
    assert run_bus("poll", "me").out.endswith("\n| [blob_altered]\n")
    assert "payload:      [blob_altered]\n" in run_bus("show", "1").out
    (bus_dir / "blobs" / ref).unlink()
    assert run_bus("poll", "me").out.endswith("\n| [blob_missing]\n")
    assert '"payload_error":"blob_missing"' in run_bus("poll", "me", "--json").out
    assert "payload:      [blob_missing]\n" in run_bus("show", "1").out


COMMANDS = [
    ("publish", "t", "--from", "a"),
    ("poll", "a"),
    ("ack", "a", "1"),
    ("tail",),
    ("agents",),
    ("export",),
    ("where",),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_bus_that_is_not_there(command: tuple[str, ...], run_bus: RunBus, project: Path) -> None:
    """An error, not `nothing there`: a poll loop must not spin on it."""
    assert_error(run_bus(*command), 1, "no bus in", "bus init")
    assert_error(run_bus(*command, "--dir", "elsewhere"), 1, "elsewhere")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS[:4])
def test_bus_of_a_newer_schema(command: tuple[str, ...], run_bus: RunBus, bus_dir: Path) -> None:
    """M-20: set 999: refuses with a clear message."""
    with contextlib.closing(sqlite3.connect(bus_dir / "bus.db")) as connection, connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    assert_error(run_bus(*command), 1, "999", f"version {SCHEMA_VERSION}")
    assert_error(run_bus("init"), 1, "999")


def test_file_that_is_no_bus(run_bus: RunBus, project: Path) -> None:
    (project / "d").mkdir()
    (project / "d" / "bus.db").write_bytes(b"not a database at all" * 100)
    assert_error(run_bus("poll", "a", "--dir", "d"), 1, "bus.db")
    assert_error(run_bus("poll", "a", "--dir", "d/bus.db"), 1, "bus.db")


def held_to_file_modes() -> tuple[str, ...]:
    """The prefix of a command so that file modes hold for it, as they do not for root."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv to take that right away")
    return ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def test_init_in_a_read_only_folder(bus_env: dict[str, str], project: Path) -> None:
    """M-29: one line, and nothing is left behind."""
    project.chmod(0o500)
    command = [*held_to_file_modes(), str(BUS), "init"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=project, env=bus_env, check=False
    )
    project.chmod(0o700)
    assert_error(Ended(done.returncode, done.stdout, done.stderr), 1, "can't make a bus in")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS[:4])
def test_read_only_bus(
    command: tuple[str, ...], log: Bus, bus_env: dict[str, str], project: Path
) -> None:
    """M-29: a read-only file gives a one-line error."""
    os.chmod(log.layout.directory, 0o555)
    os.chmod(log.layout.database, 0o444)
    try:
        done = subprocess.run(
            [*held_to_file_modes(), BUS, *command],
            capture_output=True,
            text=True,
            cwd=project,
            env=bus_env,
            check=False,
        )
    finally:
        os.chmod(log.layout.directory, 0o700)
        os.chmod(log.layout.database, 0o600)
    assert_error(Ended(done.returncode, done.stdout, done.stderr), 1, "read-only")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 1 MB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small filesystem, and not in every container")
    yield path
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.slow
def test_full_disk(small_disk: Path, run_bus: RunBus) -> None:
    """Nothing is stored half, and what was stored is there."""
    there = ("--dir", str(small_disk / "bus"))
    run_bus("init", *there)
    run_bus("publish", "t", "kept", "--from", "a", *there)
    with contextlib.suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass
    body = "y" * 4000
    for _ in range(3):
        assert_error(run_bus("publish", "t", body, "--from", "a", *there), 1, "is full")
    large = run_bus("publish", "t", "-", "--from", "a", *there, stdin="z" * 100_000)
    assert_error(large, 1, "is full")
    (small_disk / "filler").unlink()
    assert run_bus("poll", "me", *there).out.endswith("kept\n")
    assert len(run_bus("poll", "me", *there).out.splitlines()) == 1
    assert run_bus("publish", "t", body, "--from", "a", *there).code == 0


def test_verbose_errors_show_what_led_to_them(run_bus: RunBus, log: Bus) -> None:
    """Issue 2, item 10: -v."""
    done = run_bus(*PUBLISH, "--id", "first", "-v")
    lines = done.err.splitlines()
    assert done.code == 3
    assert lines[0] == f"bus: the bus is in {log.layout.directory}"
    assert lines[1].startswith("bus: message id 'first' is taken")
    assert "Traceback" in done.err
    assert "ConstraintError" in done.err


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("show 9", 4, "bus read"),
        ("ack me 9", 3, "bus poll"),  # the fast way in
        ("parked drop me", 2, "bus parked list"),  # before the bus is opened
    ],
)
def test_hints_repeat_how_the_bus_was_named(
    line: str, code: int, hint: str, run_bus: RunBus, tmp_path: Path
) -> None:
    """A command in an error works as it stands, also for another bus than is found."""
    there = tmp_path / "other"
    words = line.split()
    assert_error(run_bus("show", "9", "--dir", there), 1, f"'bus init --dir {there}'")
    for option in (["--dir", str(there)], ["--user"]):
        assert run_bus("init", *option).code == 0
        assert_error(run_bus(*words, *option), code, f"'{hint} {' '.join(option)}'")
    run_bus("init")
    assert_error(run_bus(*words), code, f"'{hint}'")
    assert_error(run_bus("publish", "--dir", there), 2, "'bus publish --help'")
