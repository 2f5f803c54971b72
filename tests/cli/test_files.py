"""bus export, bus import."""

import json
import signal
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.export.jsonl.exporter import exporters
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error


def test_export_writes_what_is_new_and_rebuilds(run_bus: RunBus, bus: Bus, bus_dir: Path) -> None:
    """M-77, M-81, M-86: the file of the log."""
    jsonl = bus_dir / "bus.jsonl"
    bus.publish("t", from_agent="a")
    assert run_bus("export").out == f"exported 1 message to {jsonl}\n"
    written = jsonl.read_bytes()
    record = {"exported": 0, "last_seq": 1, "file": str(jsonl)}
    assert json.loads(run_bus("export", "--json").out) == record
    assert jsonl.read_bytes() == written
    jsonl.unlink()
    assert json.loads(run_bus("export", "--rebuild", "--json").out)["exported"] == 1
    assert jsonl.read_bytes() == written
    assert_error(run_bus("export", "--rebuild", "--follow"), 2, "--follow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["run --type work -- true", "listen ann -- true", "serve --port 0"]
)
def test_a_command_that_lives_long_exports_and_another_takes_over(
    line: str, start_bus: StartBus, bus: Bus, bus_dir: Path
) -> None:
    first = start_bus(*line.split())
    wait_until(lambda: [process.pid for process in exporters(bus)] == [first.pid])
    second = start_bus("listen", "bob", "--", "true")
    bus.publish("note", from_agent="a")
    wait_until(lambda: (bus_dir / "bus.jsonl").read_bytes().count(b'"type":"note"') == 1)
    first.kill()
    wait_until(lambda: [process.pid for process in exporters(bus)] == [second.pid])
    bus.publish("note", from_agent="a")
    wait_until(lambda: (bus_dir / "bus.jsonl").read_bytes().count(b'"type":"note"') == 2)


def test_one_follower_exports_until_it_is_told_to_stop(
    run_bus: RunBus, start_bus: StartBus, bus: Bus, bus_dir: Path
) -> None:
    """Issue 2, item 9: one at a time, by a lock that the kernel frees."""
    jsonl = bus_dir / "bus.jsonl"
    bus.publish("t", from_agent="a")
    follower = start_bus("export", "--follow")
    wait_until(lambda: jsonl.exists() and jsonl.read_bytes().count(b"\n") == 1)
    assert_error(run_bus("export", "--follow"), 3, "another exporter")
    assert_error(run_bus("export", "--rebuild"), 3, "another exporter")
    bus.publish("t", from_agent="a")
    wait_until(lambda: jsonl.read_bytes().count(b"\n") == 2)
    follower.send_signal(signal.SIGTERM)
    assert follower.communicate(timeout=60) == (b"", b"")
    assert follower.returncode == 0


def test_import_is_idempotent_and_reports_what_it_skipped(
    run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """Issue 2, item 9: goes by id; a report of what was skipped and why."""
    (project / "in.jsonl").write_text(
        '{"id":"1","from":"a","type":"t","payload":1}\n'
        "not json\n"
        '{"id":"2","from":"a","type":"t","in_reply_to":"1"}\n'
        '{"id":"3","from":"a"}\n'
    )
    done = run_bus("import", "in.jsonl", "--json")
    assert (done.code, json.loads(done.out)) == (3, {"stored": 2, "duplicates": 0, "skipped": 2})
    assert [line.partition(" skipped: ")[0] for line in done.err.splitlines()] == [
        "bus: line 2",
        "bus: line 4",
    ]
    assert done.err.splitlines()[0].endswith(" at column 1")
    again = run_bus("import", "-", stdin=(project / "in.jsonl").read_bytes())
    assert again.out == "stored 0, duplicates 2, skipped 2\n"
    assert [message.id for message in bus.read()] == ["1", "2"]


def test_import_maps_fields(run_bus: RunBus, bus: Bus) -> None:
    """Issue 2, item 3: a field map given on the command line."""
    line = '{"id":"1","who":"a","kind":"ASK","body":"hi","branch":"main"}'
    done = run_bus(
        *("import", "-", "--map", "from=who,type=kind"),
        *("--map", "payload=body,headers.branch=branch"),
        stdin=line + "\n",
    )
    assert (done.code, done.err) == (0, "")
    (message,) = bus.read()
    assert (message.from_agent, message.type, message.payload) == ("a", "ASK", "hi")
    assert message.headers == {"branch": "main"}
    assert_error(run_bus("import", "-", "--map", "nope=x"), 2, "nope")
    assert_error(run_bus("import", "missing.jsonl"), 2, "missing.jsonl")


def test_import_says_what_it_left_out_and_says_the_same_reason_once(
    run_bus: RunBus, bus: Bus
) -> None:
    foreign = '{"id":"%d","who":"a","type":"t","body":"hi"}\n'
    done = run_bus("import", "-", stdin="".join(foreign % n for n in range(300)))
    assert (done.code, done.out) == (3, "stored 0, duplicates 0, skipped 300\n")
    assert done.err.splitlines() == [
        "bus: ignored fields: body, who; map them with --map, or keep them as headers with"
        " --map 'headers.*=*'",
        "bus: line 1 and 299 more lines skipped: it has no 'from'; see --map",
    ]
    done = run_bus("import", "-", "--map", "from=who", stdin=foreign % 1)
    assert (done.code, done.err.count("\n"), "ignored fields: body;" in done.err) == (
        0,
        1,
        True,
    )
    done = run_bus("import", "-", "--map", "from=who,headers.*=*", stdin=foreign % 2)
    assert (done.code, done.err) == (0, "")
    own = "".join(f"{message.to_line().decode()}\n" for message in bus.read())
    assert run_bus("import", "-", stdin=own).err == ""


@pytest.mark.usefixtures("bus_dir")
def test_export_and_import_give_the_same_log(run_bus: RunBus, bus: Bus, tmp_path: Path) -> None:
    bus.publish("t", {"n": 1}, from_agent="a", id="x")
    run_bus("export")
    other = tmp_path / "other"
    run_bus("init", "--dir", other)
    run_bus("import", Path(bus.layout.jsonl), "--dir", other)
    first = run_bus("replay", "--from", "1", "--json").out
    assert run_bus("replay", "--from", "1", "--json", "--dir", other).out == first


def test_rotation_is_asked_for_once(run_bus: RunBus, bus: Bus, bus_dir: Path) -> None:
    """Issue 4, item 3: the option is kept; a plain export follows it."""
    assert run_bus("export", "--rotate", "100kB").out.startswith("exported 0 messages")
    for _ in range(90):
        bus.publish("t", "x" * 4000, from_agent="a")
    assert run_bus("export").code == 0
    sizes = [path.stat().st_size for path in bus_dir.glob("bus-*.jsonl")]
    assert len(sizes) == 3
    assert max(sizes) <= 100_000
    assert run_bus("export", "--rotate", "off").out.startswith("exported 90 messages")
    assert not list(bus_dir.glob("bus-*")) + list(bus_dir.glob("bus.index*"))


def test_a_size_is_understood_as_people_write_it(run_bus: RunBus, bus: Bus) -> None:
    """Issue 4, item 3: k and kB are decimal, KiB is binary, in either case."""
    sizes = {
        "500000": 500_000,
        "500000B": 500_000,
        "500k": 500_000,
        "100KB": 100_000,
        "1mb": 1_000_000,
        "1.5MB": 1_500_000,
        "10 MiB": 10 * 1024**2,
        "2gi": 2 * 1024**3,
    }
    stored = "SELECT value FROM meta WHERE key = 'export_rotate_bytes'"
    understood = {}
    for size in sizes:
        ended = run_bus("export", "--rotate", size)
        assert (ended.code, ended.err) == (0, ""), size
        understood[size] = int(file_of(bus).value(stored))
    assert understood == sizes


@pytest.mark.parametrize(
    "size", ["", "0x10", "10  MB", "-1", "1e3", "MB", "5i", "ten", "10TB", "100", "4kB", "99999"]
)
def test_a_size_that_is_none_changes_nothing(size: str, run_bus: RunBus, bus: Bus) -> None:
    bus.publish("t", from_agent="a")
    ended = run_bus("export", f"--rotate={size}")
    assert_error(ended, 2)
    assert Path(bus.layout.jsonl).read_bytes() == b""
    assert_error(run_bus("export", "--rotate", "5MB", "--rebuild"), 2, "give one of")


def test_import_without_a_file_reads_the_buss_own(run_bus: RunBus, bus: Bus) -> None:
    assert_error(run_bus("import"), 4, "bus.jsonl is not there, or empty; name a FILE")
    Path(bus.layout.jsonl).write_text('{"id":"1","from":"a","type":"t"}\n')
    assert run_bus("import").out == "stored 1, duplicates 0, skipped 0\n"
    assert run_bus("import").out == "stored 0, duplicates 1, skipped 0\n"
