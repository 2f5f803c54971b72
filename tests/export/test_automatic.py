"""The exports of commands that were not asked for one: at their end, or beside their work."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter
from ackbus.bus.local_bus import LocalBus
from ackbus.errors import AckbusError, ExporterRunning
from ackbus.export.jsonl import automatic
from ackbus.export.jsonl.automatic import (
    BACKGROUND_LOCK,
    BRIEF_BYTES,
    BRIEF_LINES,
    export_all,
    export_briefly,
)
from ackbus.export.jsonl.exporter import BackgroundExporter, ExportState, exporters
from ackbus.export.jsonl.parts import part_files
from ackbus.export.jsonl.writer import WRITING_LOCK, Automatic, Position
from ackbus.schema.directory.file_lock import FileLock
from ackbus.schema.queries import file_of

from ..cli.git import Git
from ..conftest import RunBus, wait_until
from ..programs import raw_sql


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine 20 ms are over before anything is done."""
    monkeypatch.setattr(automatic, "BRIEFLY_S", 30.0)


def publish(bus: Bus, count: int = 1) -> None:
    for number in range(count):
        bus.publish("note", [number, "y" * 100], from_agent="ann")


def exported(bus: LocalBus) -> bytes:
    """All that is exported: the parts, then `bus.jsonl`."""
    files = [*part_files(bus.layout.jsonl), bus.layout.jsonl]
    return b"".join(Path(file).read_bytes() for file in files)


def of_log(bus: Bus) -> bytes:
    return b"".join(message.to_line() + b"\n" for message in bus.read())


# At the end of short commands -----------------------------------------------------------------


def test_what_a_command_publishes_is_in_the_file(run_bus: RunBus, bus: Bus) -> None:
    for number in range(3):
        assert run_bus("publish", "note", str(number), "--from", "ann").code == 0
        assert exported(bus) == of_log(bus)
    assert len(exported(bus).splitlines()) == 3


@pytest.mark.parametrize("kind", ["poll ann", "read", "stats", "doctor", "prompt ann", "ack ann 1"])
def test_a_command_that_publishes_nothing_exports_nothing(
    kind: str, run_bus: RunBus, bus: Bus
) -> None:
    publish(bus)
    run_bus(*kind.split())
    assert exported(bus) == b""


@pytest.mark.parametrize("command", ["publish --jsonl -", "import -"])
def test_bulk_is_exported_whole(command: str, run_bus: RunBus, bus: Bus) -> None:
    lines = [json.dumps({"id": f"m-{n}", "ts": "2026-01-10T14:00:00.000Z", "from": "ann",
                         "type": "note"}) for n in range(3 * BRIEF_LINES)]  # fmt: skip
    done = run_bus(*command.split(), stdin="\n".join(lines))
    assert done.code == 0, done
    assert exported(bus) == of_log(bus)
    assert len(exported(bus).splitlines()) == len(lines)


def test_a_command_that_fails_exports_what_it_has_published(run_bus: RunBus, bus: Bus) -> None:
    line = json.dumps({"from": "ann", "type": "note"})
    many = "\n".join([line] * 1000 + ["no json"])
    assert run_bus("publish", "--jsonl", "-", stdin=many).code != 0
    assert len(exported(bus).splitlines()) == 1000


def test_a_backlog_is_exported_some_lines_at_a_time(bus: Bus) -> None:
    publish(bus, 2 * BRIEF_LINES + 1)
    steps = []
    for _ in range(3):
        automatic._append(bus, automatic._BriefWriter)
        steps.append(len(exported(bus).splitlines()))
    assert steps == [BRIEF_LINES, 2 * BRIEF_LINES, 2 * BRIEF_LINES + 1]
    assert exported(bus) == of_log(bus)


def test_a_gap_in_the_log_holds_nobody_up(bus: Bus, bus_dir: Path) -> None:
    publish(bus)
    raw_sql(bus_dir, "INSERT INTO messages (seq, id, ts_ms, from_agent, type)"
                     " VALUES (5000, 'far', 1768053600000, 'ann', 'note')")  # fmt: skip
    export_briefly(bus)
    assert exported(bus) == of_log(bus)


def test_a_file_that_was_deleted_comes_again(bus: Bus) -> None:
    publish(bus, 3)
    export_briefly(bus)
    Path(bus.layout.jsonl).unlink()
    publish(bus)
    export_briefly(bus)
    assert exported(bus) == of_log(bus)


@pytest.mark.parametrize("limit", [0, 4096])
@pytest.mark.parametrize("cut", [-200, -1, 0, 1, 40])
def test_what_a_killed_command_leaves_is_gone_on_with(limit: int, cut: int, bus: Bus) -> None:
    """The position is that of before, and the file has more: whole lines, or a torn one."""
    if limit:
        Exporter(bus).rotate(limit)
    publish(bus, 8)
    export_briefly(bus)
    before, parts = exported(bus), part_files(bus.layout.jsonl)
    publish(bus, 3)
    more = of_log(bus).removeprefix(before)
    with open(bus.layout.jsonl, "ab") as file:
        file.write(more[: cut % len(more)])
    publish(bus)
    export_briefly(bus)
    assert exported(bus) == of_log(bus)
    assert part_files(bus.layout.jsonl)[: len(parts)] == parts


def test_rotation_keeps_the_file_bounded(run_bus: RunBus, bus: Bus) -> None:
    Exporter(bus).rotate(4096)
    for _ in range(4):
        publish(bus, 20)
        export_briefly(bus)
        assert os.path.getsize(bus.layout.jsonl) <= 4096
    assert len(part_files(bus.layout.jsonl)) > 3
    assert exported(bus) == of_log(bus)
    written = exported(bus)
    assert Exporter(bus).rebuild() == 80
    assert exported(bus) == written


def test_a_part_that_takes_long_is_left_to_others(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    Exporter(bus).rotate(6000)
    publish(bus, 20)
    export_briefly(bus)
    left = exported(bus)
    monkeypatch.setattr(automatic, "BRIEF_BYTES", 5000)
    publish(bus, 20)
    with pytest.raises(AckbusError):
        export_briefly(bus)
    assert exported(bus) == left
    export_all(bus)
    assert exported(bus) == of_log(bus)


@pytest.mark.parametrize("kind", [export_briefly, export_all])
def test_a_next_part_without_an_end_holds_nobody_up(
    kind: Callable[[LocalBus], None], bus: Bus, bus_dir: Path
) -> None:
    """It may have come with a clone: the first and the last line are a bus's."""
    Exporter(bus).rotate(4096)
    publish(bus, 50)
    export_briefly(bus)
    planted = bus_dir / f"bus-{len(part_files(bus.layout.jsonl)) + 1:06}.jsonl"
    line = Path(bus.layout.jsonl).read_bytes().splitlines(keepends=True)[0]
    planted.write_bytes(line)
    os.truncate(planted, 1 << 40)
    with planted.open("ab") as file:
        file.write(b"\n" + line)
    Path(bus.layout.jsonl).write_bytes(line)  # as after a crash
    publish(bus)
    with pytest.raises(AckbusError):
        kind(bus)


FOREIGN = {
    "lines of another bus": b'{"seq":1,"id":"other","from":"x","type":"note"}\n',
    "a conflict marker": b"<<<<<<< HEAD\n",
    "no line": b"\0\xff",
    "a line without an end": b"x" * (BRIEF_BYTES + 1),
    "the log as git has it": b'{"id":"m","from":"ann","type":"note"}\n',
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_others_wrote_is_left_alone(text: bytes, run_bus: RunBus, bus: Bus) -> None:
    publish(bus, 2)
    Path(bus.layout.jsonl).write_bytes(text)
    with pytest.raises(AckbusError):
        export_briefly(bus)
    if text.endswith(b"\n"):  # else it may be a line that a killed exporter has torn
        with pytest.raises(AckbusError):
            export_all(bus)
    assert Path(bus.layout.jsonl).read_bytes() == text
    done = run_bus("publish", "note", "x", "--from", "ann")
    assert (done.code, done.err) == (0, "")
    assert Path(bus.layout.jsonl).read_bytes() == text
    said = run_bus("doctor").out
    assert ("bad   bus.jsonl: " in said) or ("warn  bus.jsonl: not as the last export" in said)


def test_git_sees_nothing_of_a_bus_until_it_is_let_in(
    run_bus: RunBus, bus: Bus, project: Path, bus_env: dict[str, str]
) -> None:
    """ADR 109: also not the file that commands now write."""
    git = Git(project, bus_env)
    git.ok("init", "-q")
    run_bus("publish", "note", "x", "--from", "ann")
    with_thread(bus, lambda: None)
    assert exported(bus) == of_log(bus)
    assert git.ok("status", "--porcelain", "--untracked-files=all") == ""
    run_bus("setup", "git")
    seen = git.ok("status", "--porcelain", "--untracked-files=all").split()[1::2]
    assert seen == [f".worker-state/{name}" for name in (".gitattributes", ".gitignore")] + [
        ".worker-state/bus.jsonl"
    ]


# Who is left alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["off", "0", "no", "OFF"])
def test_the_environment_turns_it_off(word: str, run_bus: RunBus, bus: Bus) -> None:
    run_bus("publish", "note", "x", "--from", "ann", env={"BUS_EXPORT": word})
    assert exported(bus) == b""
    said = run_bus("where", "-v", env={"BUS_EXPORT": word})
    assert f"commands leave it alone: BUS_EXPORT is '{word}'" in said.err


@pytest.mark.parametrize("word", ["on", ""])
def test_the_environment_can_say_on(word: str, run_bus: RunBus, bus: Bus) -> None:
    run_bus("publish", "note", "x", "--from", "ann", env={"BUS_EXPORT": word})
    assert exported(bus) == of_log(bus)


def test_the_setting_of_the_bus_turns_it_off_and_on(run_bus: RunBus, bus: Bus) -> None:
    assert run_bus("export", "--auto", "off").code == 0
    run_bus("publish", "note", "x", "--from", "ann")
    with_thread(bus, lambda: None)
    assert exported(bus) == b""
    said = json.loads(run_bus("where", "--json").out)["export"]
    assert "--auto on" in said["left_alone"]
    assert said["behind"] == 1
    assert "--auto on" in run_bus("doctor").out
    assert run_bus("export").out.startswith("exported 1 message")  # asked for
    run_bus("export", "--auto", "on")
    run_bus("publish", "note", "x", "--from", "ann")
    assert exported(bus) == of_log(bus)


def test_a_value_of_the_setting_that_is_not_known_is_off(bus: Bus, bus_dir: Path) -> None:
    Automatic.of(bus).set(True)
    raw_sql(bus_dir, "UPDATE meta SET value = 'x' WHERE key = 'export_automatic'")
    publish(bus)
    export_briefly(bus)
    export_all(bus)
    assert exported(bus) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [".", "bus.jsonl"])
def test_what_is_another_users_is_left_alone(name: str, run_bus: RunBus, bus: Bus) -> None:
    os.chown(Path(bus.directory, name), 54321, 54321)
    try:
        run_bus("publish", "note", "x", "--from", "ann", "--dir", bus.directory)
        with_thread(bus, lambda: None)
        assert exported(bus) == b""
        assert "another user's" in (ExportState(bus).left_alone or "")
    finally:
        os.chown(Path(bus.directory, name), 0, 0)


def test_a_backup_is_left_alone(run_bus: RunBus, bus: Bus, tmp_path: Path) -> None:
    publish(bus)
    assert run_bus("backup", str(tmp_path / "copy")).code == 0
    with Bus.open(tmp_path / "copy") as copy:
        export_briefly(copy)
        export_all(copy)
        assert ExportState(copy).left_alone == "this is a backup"
    assert not (tmp_path / "copy" / "export.lock").exists()


@pytest.mark.parametrize("name", ["export.lock", WRITING_LOCK, BACKGROUND_LOCK, "write.lock"])
def test_a_lock_that_is_held_delays_nobody(
    name: str, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the write lock: the message is in the log, and the export can wait."""
    publish(bus)
    monkeypatch.setattr(automatic, "BRIEFLY_S", 0.02)
    lock = FileLock(bus.layout.files.path_of(name))
    assert lock.try_acquire()
    before = time.monotonic()
    with suppress(AckbusError):
        export_briefly(bus)
    # Far below any time after which a lock is given up, and far above what a busy machine takes.
    assert time.monotonic() - before < 10
    lock.close()
    assert exported(bus) == b""


# Beside commands that live long -------------------------------------------------------------------


def with_thread(bus: Bus, act: object) -> None:
    exporter = BackgroundExporter(bus)
    exporter.start()
    try:
        act()  # type: ignore[operator]
    finally:
        exporter.stop()


@pytest.fixture
def beside(bus: Bus) -> Iterator[BackgroundExporter]:
    exporter = BackgroundExporter(bus)
    exporter.start()
    yield exporter
    exporter.stop()


def test_the_background_follows_the_log(bus: Bus, beside: BackgroundExporter) -> None:
    for _ in range(3):
        publish(bus, 2)
        wait_until(lambda: exported(bus) == of_log(bus))
    state = ExportState(bus)
    assert [process.pid for process in state.by] == [os.getpid()]
    assert (state.last_seq, state.behind) == (6, 0)


def test_a_short_command_leaves_the_lines_to_it(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = FileLock(bus.layout.files.path_of(BACKGROUND_LOCK))
    assert lock.try_acquire()
    publish(bus)
    export_briefly(bus)
    assert exported(bus) == b""
    lock.close()


def test_a_stopped_command_holds_no_lines_back(bus: Bus) -> None:
    """As after Ctrl-Z: it has the lock, and exports nothing."""
    lock = FileLock(bus.layout.files.path_of(BACKGROUND_LOCK))
    assert lock.try_acquire()
    bus.log.append([Draft("note", from_agent="ann", ts_ms=bus.now_ms() - 5000)])
    export_briefly(bus)
    assert exported(bus) == of_log(bus)
    lock.close()


@pytest.mark.parametrize("export", [export_briefly, export_all])
@pytest.mark.parametrize("is_counted", [True, False])
def test_no_line_of_an_open_transaction_is_exported(
    export: Callable[[LocalBus], None], is_counted: bool, bus: Bus
) -> None:
    """A command that is interrupted may leave one open, of which its connection sees the rows."""
    publish(bus)
    with ExitStack() as stack:
        if is_counted:
            stack.enter_context(bus.transaction())
            publish(bus)
        else:  # broken off between the end of the block and the COMMIT
            file_of(bus).connection.execute("BEGIN IMMEDIATE")
            stack.callback(file_of(bus).connection.execute, "ROLLBACK")
        export(bus)
        assert exported(bus) == b""


def test_no_lock_is_made_in_a_bus_that_is_left_alone(bus: Bus) -> None:
    Automatic.of(bus).set(False)
    exporter = BackgroundExporter(bus)
    exporter.start()
    publish(bus)
    exporter.stop()
    assert not os.path.exists(bus.layout.files.path_of(BACKGROUND_LOCK))


@pytest.mark.parametrize("export", [export_briefly, export_all])
def test_a_file_that_was_exchanged_after_the_look_is_not_gone_on_with(
    export: Callable[[LocalBus], None], bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does, between the look at the path and the opening."""
    publish(bus, 2)
    export_all(bus)
    publish(bus)
    looked = Position.is_of

    def exchange(position: Position, path: str) -> bool:
        is_own = looked(position, path)
        Path(path + ".new").write_bytes(b"")
        os.replace(path + ".new", path)
        return is_own

    monkeypatch.setattr(Position, "is_of", exchange)
    with pytest.raises(AckbusError, match="changed meanwhile"):
        export(bus)
    monkeypatch.undo()
    export_all(bus)
    assert exported(bus) == of_log(bus)


def test_another_takes_over(bus: Bus, bus_dir: Path, beside: BackgroundExporter) -> None:
    publish(bus)
    wait_until(lambda: exported(bus) == of_log(bus))
    second = BackgroundExporter(bus)
    second.start()
    beside.stop()
    publish(bus)
    wait_until(lambda: exported(bus) == of_log(bus))
    second.stop()


@pytest.mark.parametrize("way", ["export_once", "rebuild", "rotate", "follow"])
def test_who_is_asked_to_export_goes_first(way: str, bus: Bus, beside: BackgroundExporter) -> None:
    publish(bus, 40)
    wait_until(lambda: Position.of(bus).get() == 40)
    if way == "rotate":
        assert Exporter(bus).rotate(4096) == 40
    elif way == "follow":
        with Exporter(bus):
            publish(bus, 3)
            with pytest.raises(ExporterRunning):
                Exporter(bus).rebuild()
    else:
        getattr(Exporter(bus), way)()
    publish(bus)
    wait_until(lambda: exported(bus) == of_log(bus))


def test_it_ends_soon_while_it_is_far_behind(bus: Bus) -> None:
    publish(bus, 50)
    exporter = BackgroundExporter(bus)
    exporter.start()
    exporter.stop()
    assert exported(bus) == of_log(bus)
    assert exporters(bus) == []


def test_what_stops_it_is_logged_once(
    bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "ackbus.export")  # which no command prints unless it is asked to
    publish(bus)
    Path(bus.layout.jsonl).write_bytes(FOREIGN["lines of another bus"])
    exporter = BackgroundExporter(bus)
    exporter.start()
    wait_until(lambda: caplog.records)
    publish(bus)
    exporter.stop()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert exported(bus) == FOREIGN["lines of another bus"]


def test_a_file_that_was_mended_is_gone_on_with_at_once(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ackbus.export")
    publish(bus)
    Path(bus.layout.jsonl).write_bytes(FOREIGN["a conflict marker"])
    exporter = BackgroundExporter(bus)
    exporter.start()
    wait_until(lambda: caplog.records)
    Path(bus.layout.jsonl).write_bytes(b"")
    publish(bus)
    wait_until(lambda: exported(bus) == of_log(bus))
    exporter.stop()


def test_a_moved_bus_ends_it(bus: Bus, bus_dir: Path) -> None:
    exporter = BackgroundExporter(bus)
    exporter.start()
    wait_until(lambda: (bus_dir / BACKGROUND_LOCK).exists())
    bus_dir.rename(bus_dir.with_name("elsewhere"))
    exporter.stop()
    assert not (bus_dir.with_name("elsewhere") / "bus.jsonl").read_bytes()


@pytest.mark.parametrize("key", ["export_mark", "export_rotate_bytes", "export_automatic"])
@pytest.mark.parametrize("value", ["'x'", "x'00'", "5", "'9 9 9 9 9 9'", f"'{'9' * 5000}'"])
def test_no_row_of_the_settings_stops_a_command(
    key: str, value: str, run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """Also those that the rules of the file refuse: a program can turn these off."""
    with apsw.Connection(str(bus_dir / "bus.db")) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        with suppress(apsw.Error):  # the table is strict
            raw.execute(f"INSERT OR REPLACE INTO meta (key, value) VALUES ('{key}', {value})")
    done = run_bus("publish", "note", "x", "--from", "ann")
    assert (done.code, done.err) == (0, "")
    with_thread(bus, lambda: publish(bus))
    seen = exported(bus)
    assert of_log(bus).startswith(seen)


def test_no_thread_in_the_library(bus: Bus) -> None:
    publish(bus)
    assert exported(bus) == b""
    assert file_of(bus).layout.files.look(BACKGROUND_LOCK) is None
