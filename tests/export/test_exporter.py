"""The exporter: bus.jsonl equals the log, after anything."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter
from ackbus.errors import BusUnusable, ExporterRunning, Refused
from ackbus.export.jsonl import exporter
from ackbus.export.jsonl.parts import NotImported
from ackbus.export.jsonl.writer import BATCH_MESSAGES, Position
from ackbus.schema.directory.file_lock import FileLock
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from ..programs import raw_sql

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")

GOLDEN = b"""\
{"seq":1,"id":"m-1","ts":"2026-01-10T14:00:00.000Z","from":"lead","type":"run.started"}
{"seq":2,"id":"m-2","ts":"2026-01-10T14:00:00.001Z","from":"lead","to":"w-1","type":"task_assign",\
"correlation_id":"m-1","in_reply_to":"m-1","priority":"interactive",\
"headers":{"traceparent":"00-ab-cd-01"},"payload":{"n":1,"path":"a.py"}}
{"seq":3,"id":"m-3","ts":"2026-01-10T14:00:00.002Z","from":"w-1","to":"lead","type":"task_done",\
"correlation_id":"m-1","in_reply_to":"m-2","payload":null}
{"seq":4,"id":"m-4","ts":"2026-01-10T14:00:00.003Z","from":"w-1","type":"note",\
"payload":"h\xc3\xa9llo\\n\\u001b[31m \\"quoted\\" \xe2\x80\xa8"}
{"seq":5,"id":"m-5","ts":"2026-01-10T14:00:00.004Z","from":"w-1","type":"log",\
"payload_ref":"sha256-f6aded27d6860380436f8521caa75568b9504f97b8927dceb41de307362e8cd7"}
{"seq":6,"id":"m-6","ts":"2026-01-10T14:00:00.005Z","from":"lead","type":"run.ended",\
"priority":"background","payload":[0,false,"",{},9007199254740993]}
"""


def publish_golden(bus: Bus) -> None:
    start_ms = 1768053600000
    drafts = [
        Draft("run.started", from_agent="lead"),
        Draft(
            "task_assign",
            {"path": "a.py", "n": 1},
            from_agent="lead",
            to_agent="w-1",
            in_reply_to="m-1",
            priority=0,
            headers={"traceparent": "00-ab-cd-01"},
        ),
        Draft("task_done", None, from_agent="w-1", to_agent="lead", in_reply_to="m-2"),
        Draft("note", 'héllo\n\x1b[31m "quoted" \u2028', from_agent="w-1"),
        Draft("log", "x" * 5000, from_agent="w-1"),
        Draft("run.ended", [0, False, "", {}, 2**53 + 1], from_agent="lead", priority=2),
    ]
    for number, draft in enumerate(drafts, 1):
        draft.id, draft.ts_ms = f"m-{number}", start_ms + number - 1
    bus.publish_many(drafts)


def publish_some(bus: Bus, count: int, *, type: str = "note") -> None:
    bus.publish_many([Draft(type, {"n": n}, from_agent="a") for n in range(count)])


def exported(bus: Bus) -> bytes:
    return Path(bus.layout.jsonl).read_bytes()


def log_lines(bus: Bus) -> bytes:
    return b"".join(message.to_line() + b"\n" for message in bus.read())


def test_lines_have_the_documented_bytes(bus: Bus) -> None:
    """M-79, M-82, X-37, C-07, promise 8: the golden file; a large payload is a reference."""
    publish_golden(bus)
    assert Exporter(bus).export_once() == 6
    assert exported(bus) == GOLDEN


def test_every_line_is_one_json_object_in_order(bus: Bus) -> None:
    """M-79: parse all, seq ascending."""
    publish_some(bus, 2500)
    assert Exporter(bus).export_once() == 2500
    lines = exported(bus).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 2501))


def test_nothing_new_leaves_the_file_untouched(bus: Bus) -> None:
    """M-81: neither time nor bytes change."""
    publish_some(bus, 3)
    Exporter(bus).export_once()
    before = os.stat(bus.layout.jsonl)
    assert Exporter(bus).export_once() == 0
    after = os.stat(bus.layout.jsonl)
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_size, before.st_ino) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_size,
        after.st_ino,
    )


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_a_line_deleted_by_hand_comes_back_in_its_place(lost: int, bus: Bus) -> None:
    """M-78, promise 8: the position is not a line count; no line is doubled or hidden."""
    publish_some(bus, 5)
    Exporter(bus).export_once()
    lines = exported(bus).splitlines(keepends=True)
    Path(bus.layout.jsonl).write_bytes(b"".join(lines[:lost] + lines[lost + 1 :]))
    publish_some(bus, 1)
    Exporter(bus).export_once()
    assert exported(bus) == log_lines(bus)


@pytest.mark.slow
@pytest.mark.parametrize("follows", [False, True])
def test_a_file_in_which_somebody_wrote_is_looked_through(follows: bool, bus: Bus) -> None:
    """Promise 8, pitfall 25: the last line is ours, but not all before it. Also while following."""
    publish_golden(bus)
    exporter = Exporter(bus)
    Exporter(bus).export_once()
    if follows:
        exporter.start()
    foreign = b'{"id":"A1","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'
    jsonl = Path(bus.layout.jsonl)
    jsonl.write_bytes(foreign + GOLDEN)
    with pytest.raises(NotImported, match="A1"):
        Exporter(bus).export_once()
    assert exported(bus) == foreign + GOLDEN
    jsonl.write_bytes(GOLDEN[: GOLDEN.index(b"\n") + 1] + GOLDEN)
    Exporter(bus).export_once()
    assert exported(bus) == GOLDEN
    exporter.stop()


@pytest.mark.parametrize("limit", [0, 200_000])
def test_what_is_written_into_the_file_during_an_export_is_found(limit: int, bus: Bus) -> None:
    """Promise 8, pitfall 25: it stands between two batches, also where the file is cut after it."""
    Exporter(bus).rotate(limit)
    foreign = b'{"id":"A1","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'

    def write_into_it(count: int) -> None:
        if count == BATCH_MESSAGES:
            with open(bus.layout.jsonl, "ab") as file:
                file.write(foreign)

    publish_some(bus, 2 * BATCH_MESSAGES)
    with suppress(BusUnusable):  # it was found already, before the file was cut
        Exporter(bus).export_once(progress=write_into_it)
    for export in (Exporter(bus).export_once, Exporter(bus).rebuild):
        with pytest.raises(NotImported, match="A1"):
            export()
    assert foreign in exported(bus)


def test_a_file_that_is_as_it_was_left_is_not_read(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_golden(bus)
    Exporter(bus).export_once()
    monkeypatch.setattr("ackbus.export.jsonl.writer.last_in_log", None)
    publish_some(bus, 1)
    assert Exporter(bus).export_once() == 1


def test_gaps_in_seq_are_gone_over(bus: Bus, bus_dir: Path) -> None:
    """M-84, X-41: another program may leave some out; a duplicate does not."""
    bus.publish("note", 1, from_agent="a", id="one")
    bus.publish("note", 1, from_agent="a", id="one")
    insert = (
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES (8, 'two', 1, 'a', 't')"
    )
    raw_sql(bus_dir, insert)
    assert Exporter(bus).export_once() == 2
    assert [json.loads(line)["seq"] for line in exported(bus).splitlines()] == [1, 8]


def test_a_torn_last_line_is_cut_and_written_again(bus: Bus) -> None:
    """M-85, X-40: every cut inside the last line gives the same file again."""
    publish_golden(bus)
    Exporter(bus).export_once()
    start_of_last = GOLDEN.rindex(b"\n", 0, -1) + 1
    for cut in (start_of_last, start_of_last + 1, len(GOLDEN) - 10, len(GOLDEN) - 1):
        os.truncate(bus.layout.jsonl, cut)
        Exporter(bus).export_once()
        assert exported(bus) == GOLDEN


def test_lines_that_outran_the_position_are_not_written_twice(bus: Bus) -> None:
    """M-85, M-80: the crash between the lines and the position."""
    publish_golden(bus)
    Exporter(bus).export_once()
    with bus.transaction():
        file_of(bus).change("UPDATE export_state SET last_seq = 2")
    assert Exporter(bus).export_once() == 0
    assert exported(bus) == GOLDEN
    assert Exporter(bus).position == 6


def test_a_deleted_file_is_rebuilt_to_the_same_bytes(bus: Bus) -> None:
    """M-86, promise 8."""
    publish_golden(bus)
    publish_some(bus, 1500)
    Exporter(bus).export_once()
    before = exported(bus)
    os.unlink(bus.layout.jsonl)
    assert Exporter(bus).export_once() == 1506
    assert exported(bus) == before
    assert Exporter(bus).rebuild() == 1506
    assert exported(bus) == before == log_lines(bus)


@pytest.mark.parametrize(
    "line",
    [
        b"not a line of a bus\n",
        b'{"id":"pulled","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n',
        b'{"id":"pulled","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}',
    ],
)
def test_no_way_to_export_throws_a_line_away(line: bytes, bus: Bus) -> None:
    """Pitfall 25: what is in the file and not in the log is nowhere else, perhaps."""
    publish_golden(bus)
    Exporter(bus).export_once()
    jsonl = Path(bus.layout.jsonl)
    jsonl.write_bytes(GOLDEN + line)
    exporter = Exporter(bus)
    for export in (exporter.export_once, exporter.rebuild, lambda: exporter.rotate(4096)):
        with pytest.raises(NotImported, match="'bus import'") as refused:
            export()
        assert "--rebuild" not in str(refused.value)
        assert exported(bus) == GOLDEN + line
    jsonl.unlink()
    assert Exporter(bus).export_once() == 6  # in one file: nothing was set by the one that refused
    assert exported(bus) == GOLDEN


@pytest.mark.parametrize("way", ["rebuild", "rotate", "export"])
def test_a_file_that_comes_while_all_is_written_anew_is_not_lost(way: str, bus: Bus) -> None:
    """Promise 8, pitfall 18: a checkout in the seconds between the look at it and the rename."""
    publish_golden(bus)
    Exporter(bus).export_once()
    pulled = GOLDEN + b'{"id":"pulled","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'

    def check_out(content: bytes) -> None:
        other = Path(bus.layout.directory, "other")
        other.write_bytes(content)
        other.replace(bus.layout.jsonl)

    def write_anew(meanwhile: bytes) -> int:
        left = [meanwhile]

        def progress(count: int) -> None:
            if left:
                check_out(left.pop())

        if way == "rebuild":
            return Exporter(bus).rebuild(progress=progress)
        if way == "rotate":
            return Exporter(bus).rotate(4096, progress=progress)
        check_out(GOLDEN.splitlines(keepends=True)[3])  # what the log has, and not the first of it
        return Exporter(bus).export_once(progress=progress)

    with pytest.raises(NotImported, match="pulled"):
        write_anew(pulled)
    assert exported(bus) == pulled
    assert not list(Path(bus.layout.directory).glob("*.new"))
    check_out(GOLDEN)
    assert write_anew(GOLDEN[: GOLDEN.index(b"\n") + 1]) == 6
    assert exported(bus) == GOLDEN


def test_a_file_of_another_bus_is_refused_and_left_alone(bus: Bus) -> None:
    publish_some(bus, 3)
    foreign = b'{"seq":2,"id":"foreign","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'
    Path(bus.layout.jsonl).write_bytes(foreign)
    with pytest.raises(Refused, match="not in this bus"):
        Exporter(bus).export_once()
    assert exported(bus) == foreign


def test_an_empty_bus_gives_an_empty_file_to_follow(bus: Bus) -> None:
    assert Exporter(bus).export_once() == 0
    assert exported(bus) == b""


def test_a_payload_that_is_no_json_still_gives_a_whole_line(bus: Bus) -> None:
    """M-52, M-83: what another program stored badly can't break the lines of the file."""
    sql = "INSERT INTO messages (id, ts_ms, from_agent, type, payload) VALUES (?, 0, 'a', 't', ?)"
    with bus.transaction():
        for id, payload in (("bad", '{"a":\n'), ("long", '{"a":\n 1}'), ("good", '{"b": 2}')):
            file_of(bus).change(sql, (id, payload))
    Exporter(bus).export_once()
    bad, long, good = map(json.loads, exported(bus).splitlines())
    assert (bad["payload"], bad["payload_error"]) == ('{"a":\n', "decode_failed")
    assert (long["payload"], good["payload"]) == ({"a": 1}, {"b": 2})


def test_a_number_beyond_64_bits_in_the_last_line_stops_nothing(bus: Bus) -> None:
    """Pitfall 21: another program stored it; the exporter writes it as it is and goes on after."""
    huge = "1234567890" * 3
    with bus.transaction():
        sql = (
            "INSERT INTO messages (id, ts_ms, from_agent, type, payload) VALUES (?, 0, 'a', 't', ?)"
        )
        file_of(bus).change(sql, ("h", huge))
    Exporter(bus).export_once()
    publish_some(bus, 1)
    assert Exporter(bus).export_once() == 1
    assert exported(bus) == log_lines(bus)
    assert huge.encode() in exported(bus)


@pytest.fixture
def following(bus: Bus) -> Iterator[Exporter]:
    with Exporter(bus) as exporter:
        yield exporter


def test_a_published_message_appears_by_itself(bus: Bus, following: Exporter) -> None:
    """M-77, C-07: the background exporter, as a thread."""
    bus.publish("note", "first", from_agent="a")
    wait_until(lambda: exported(bus) == log_lines(bus))


def test_an_exporter_in_another_process_keeps_up(bus: Bus, bus_dir: Path) -> None:
    """M-77, C-07: the background exporter, as a process; stopping it exports the rest."""
    script = (
        "import signal, sys\n"
        "from ackbus import Bus, Exporter\n"
        "exporter = Exporter(Bus.open(sys.argv[1]))\n"
        "signal.signal(signal.SIGTERM, lambda *_: exporter.stop())\n"
        "exporter.follow()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, bus_dir])
    publish_some(bus, 10)
    wait_until(lambda: os.path.exists(bus.layout.jsonl) and exported(bus) == log_lines(bus))
    publish_some(bus, 10)
    child.terminate()
    assert child.wait(60) == 0
    assert exported(bus) == log_lines(bus)


def test_one_exporter_works_at_a_time(bus: Bus, following: Exporter) -> None:
    """A second follower is refused; a single export waits for the first to do the work."""
    with pytest.raises(ExporterRunning):
        Exporter(bus).follow()
    with pytest.raises(ExporterRunning):
        Exporter(bus).start()
    with pytest.raises(ExporterRunning):
        Exporter(bus).rebuild()
    publish_some(bus, 10)
    assert Exporter(bus).export_once() == 0
    assert exported(bus) == log_lines(bus)


@pytest.mark.requirement("X-21")
def test_hook_and_background_give_the_same_file(bus: Bus) -> None:
    """X-21, Q-01."""
    with Exporter(bus):
        publish_golden(bus)
        wait_until(lambda: exported(bus) == GOLDEN)
    os.unlink(bus.layout.jsonl)
    Exporter(bus).export_once()
    assert exported(bus) == GOLDEN


def test_a_killed_exporter_frees_the_lock(bus: Bus, bus_dir: Path) -> None:
    script = (
        "import sys\n"
        "from ackbus import Bus, Exporter\n"
        "exporter = Exporter(Bus.open(sys.argv[1]))\n"
        "exporter.start()\n"
        "print('ready', flush=True)\n"
        "exporter._thread.join()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, bus_dir], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with pytest.raises(ExporterRunning):
        Exporter(bus).rebuild()
    child.kill()
    child.communicate()
    assert Exporter(bus).rebuild() == 0


def test_a_file_replaced_under_the_exporter_is_taken_up(bus: Bus, following: Exporter) -> None:
    """A checkout puts an older bus.jsonl in place; the exporter goes on from what it says."""
    publish_golden(bus)
    wait_until(lambda: exported(bus) == GOLDEN)
    older = Path(bus.layout.jsonl).with_suffix(".older")
    older.write_bytes(b"".join(GOLDEN.splitlines(keepends=True)[:2]))
    os.replace(older, bus.layout.jsonl)
    publish_some(bus, 1)
    wait_until(lambda: exported(bus) == log_lines(bus))


def test_a_file_that_a_power_loss_harmed_is_not_gone_on_with(
    bus: Bus, bus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-86, promise 8: bytes that were not synced may be lost where size and time are not."""
    monkeypatch.setattr("ackbus.export.jsonl.writer.boot_id", lambda: "before the power loss")
    for n in range(3):
        bus.publish("note", n, from_agent="bob")
    Exporter(bus).export_once()
    jsonl = bus_dir / "bus.jsonl"
    there = jsonl.stat()
    with jsonl.open("r+b") as file:
        file.seek(there.st_size // 2)
        file.write(bytes(20))
    os.utime(jsonl, ns=(there.st_atime_ns, there.st_mtime_ns))

    monkeypatch.setattr("ackbus.export.jsonl.writer.boot_id", lambda: "after it")
    bus.publish("note", 3, from_agent="bob")
    with pytest.raises(NotImported, match="was not written by a bus"):
        Exporter(bus).export_once()
    jsonl.unlink()
    Exporter(bus).export_once()
    assert [json.loads(line)["seq"] for line in jsonl.read_bytes().splitlines()] == [1, 2, 3, 4]


@pytest.mark.slow
def test_tail_sees_whole_lines_as_they_come(bus: Bus, following: Exporter) -> None:
    """M-83, C-09: `tail -f` on the growing file; every line parses, none is missing."""
    tail = subprocess.Popen(
        ["tail", "-n", "+1", "-f", bus.layout.jsonl], stdout=subprocess.PIPE, bufsize=0
    )
    publisher = threading.Thread(
        target=lambda: [
            bus.publish("note", "x" * (n * 17 % 4000), from_agent="a") for n in range(300)
        ]
    )
    publisher.start()
    assert tail.stdout is not None
    seen = [json.loads(tail.stdout.readline())["seq"] for _ in range(300)]
    publisher.join()
    tail.kill()
    tail.communicate()
    assert seen == list(range(1, 301))


READER = """
import json, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
seqs, rest, split = [], b"", 0
while len(seqs) < int(sys.argv[2]):
    data = os.read(file, 4 * 1024 * 1024)
    if not data:
        continue
    split += data[-1:] != b"\\n"
    *lines, rest = (rest + data).split(b"\\n")
    seqs += [json.loads(line)["seq"] for line in lines]
assert seqs == list(range(1, len(seqs) + 1)), "a line twice, or out of its place"
print("read all,", split, "times up to half a line, and left", rest)
"""


@pytest.mark.slow
def test_a_reader_that_keeps_half_a_line_gets_every_message_once(bus: Bus) -> None:
    """The file is there before the first message; the system may show any part of a write."""
    count = 20_000
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, bus.layout.jsonl, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(4):
        bus.publish_many([Draft("note", "x" * 100, from_agent="a")] * (count // 4))
        Exporter(bus).export_once()
    told, _ = reader.communicate(timeout=60)
    assert told.startswith("read all,")
    assert told.endswith("left b''\n")


def test_git_shows_only_added_lines(bus: Bus, project: Path) -> None:
    """M-07, M-11, C-10: bus.jsonl can be committed, the database can't by mistake."""

    def git(*args: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", *identity, *args]
        return subprocess.run(
            command, cwd=project, check=True, text=True, capture_output=True
        ).stdout

    git("init", "-q")
    publish_golden(bus)
    Exporter(bus).export_once()
    assert git("status", "--porcelain", "-uall") == ""
    git("add", "-f", ".worker-state/bus.jsonl")
    git("commit", "-qm", "one")
    publish_some(bus, 3)
    Exporter(bus).export_once()
    changes = [
        line
        for line in git("diff", "-U0", "--", ".worker-state/bus.jsonl").splitlines()
        if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
    ]
    assert len(changes) == 3
    assert all(line.startswith("+") and json.loads(line[1:]) for line in changes)


def test_replaying_gives_the_bytes_of_the_file(bus: Bus) -> None:
    """C-11: from a seq on, inclusive, the same bytes as the export."""
    publish_golden(bus)
    Exporter(bus).export_once()
    replayed = b"".join(message.to_line() + b"\n" for message in bus.read(after_seq=3))
    assert replayed == b"".join(exported(bus).splitlines(keepends=True)[3:])


def test_a_full_disk_is_waited_out(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seam is os.write: it writes half a line and then says that the disk is full."""
    publish_golden(bus)
    real_write = os.write

    def full(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") != bus.layout.jsonl:
            return real_write(fd, data)
        if os.fstat(fd).st_size == 0:
            return real_write(fd, bytes(data)[:40])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr("ackbus.export.jsonl.exporter.RECHECK_S", 0.05)
    with Exporter(bus):
        wait_until(lambda: exported(bus) == GOLDEN[:40])
        monkeypatch.setattr(os, "write", real_write)
        wait_until(lambda: exported(bus) == GOLDEN)


def test_export_goes_on_when_the_other_exporter_ends_early(bus: Bus, bus_dir: Path) -> None:
    """Promise 8: two hooks at once; the first had begun before the newest message was there."""
    publish_some(bus, 3)
    other = FileLock(bus.layout.export_lock)
    other.acquire(1)
    counts: list[int] = []

    def export() -> None:
        counts.append(Exporter(bus).export_once())

    thread = threading.Thread(target=export)
    thread.start()
    other.close()
    thread.join(60)
    assert counts == [3]


def test_export_waits_for_a_busy_one_without_reading_its_file(bus: Bus) -> None:
    """Promise 8: between its lines and its position a file is not as it was left, and yet sound."""
    publish_some(bus, 3)
    Path(bus.layout.jsonl).write_bytes(b"to read this line is to refuse it\n")
    busy = FileLock(bus.layout.export_lock)
    busy.acquire(1)
    done = threading.Event()

    def get_on() -> None:
        position, seq = Position.of(bus), 0
        while not done.is_set():
            seq = seq % 3 + 1  # it stays in the log
            position.set(seq, (0, 0, 0), 0)
        file_of(bus).close_thread()

    thread = threading.Thread(target=get_on)
    thread.start()
    try:
        assert Exporter(bus).export_once() == 0
    finally:
        done.set()
        thread.join()
        busy.close()


def test_exporter_starts_again_after_a_stop_and_after_an_error(bus: Bus) -> None:
    """A program may wait for its turn, and export for a while, as often as it likes."""
    first, second = Exporter(bus), Exporter(bus)
    with first, pytest.raises(ExporterRunning):
        second.start()
    for count in (1, 2):
        with second:
            publish_some(bus, 1)
            wait_until(lambda count=count: second.position == count)  # type: ignore[misc]


def test_exporter_thread_never_ends_in_silence(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 11: an error that nobody foresaw reaches the one who started it."""
    monkeypatch.setattr(exporter, "wait_for", lambda *_, **__: os.pread(-1, 1, 0))
    with pytest.raises(OSError, match="Bad file descriptor"):
        Exporter(bus).start()
