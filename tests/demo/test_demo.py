"""`bus demo` as a person runs it: real processes, a real SIGKILL, counts from the log."""

import hashlib
import json
import os
import pty
import signal
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox, Queue
from ackbus.cli.commands import demo as report
from ackbus.cli.extras import install_command
from ackbus.errors import BusNotFound
from ackbus.model import QueueStats
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until

pytestmark = pytest.mark.slow

BUS = f"{sysconfig.get_path('scripts')}/bus"


def write_tree(root: Path, files: int) -> set[str]:
    """A tree of Python files in several folders; returns their paths."""
    paths = {f"part{number % 7}/file{number}.py" for number in range(files)}
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"name = {path!r}\n" * (len(path) + 1))
    return paths


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return state.stdout.strip()[:1] not in (b"", b"Z")


def agents_of(bus: Bus) -> dict[str, int | None]:
    """The process of each worker of the demo, from its heartbeat."""
    return {beat.agent: beat.pid for beat in bus.heartbeats.list()}


def run_json(run_bus: RunBus, root: Path, where: Path) -> tuple[list[Any], Any]:
    """The results and the summary of a demo that succeeds."""
    done = run_bus("demo", root, "--dir", where, "--json")
    assert (done.code, done.out[-1:]) == (0, "\n"), done.err
    *results, last = map(json.loads, done.out.splitlines())
    return results, last["summary"]


def test_tree_of_one_file_is_examined_once_and_the_killed_worker_is_replaced(
    run_bus: RunBus, tmp_path: Path
) -> None:
    """M-75, C-08: the task of a worker that died under SIGKILL is done by another."""
    (path,) = write_tree(tmp_path / "tree", 1)
    results, summary = run_json(run_bus, tmp_path / "tree", tmp_path / "bus")
    assert [result["path"] for result in results] == [path]
    proof = summary["proof"]
    assert [proof[name] for name in ("tasks", "examined", "reported_once", "results")] == [1] * 4
    takeover = proof["takeover"]
    assert takeover["taken_over_by"] not in (None, takeover["killed"])
    lost, won = takeover["tokens"]
    assert 0 < lost < won
    assert proof["holds"]


def test_300_files_have_exact_counts_in_the_log_and_no_process_is_left(
    run_bus: RunBus, tmp_path: Path
) -> None:
    """M-75, M-79, C-07, C-08: counted with the library, apart from the demo's own proof."""
    paths = write_tree(tmp_path / "tree", 300)
    results, summary = run_json(run_bus, tmp_path / "tree", tmp_path / "bus")
    for result in results:
        data = (tmp_path / "tree" / result["path"]).read_bytes()
        assert result["sha256"] == hashlib.sha256(data).hexdigest()
        assert (result["bytes"], result["lines"]) == (len(data), data.count(b"\n"))
        assert result["python"] == "ok"
    with Bus.open(tmp_path / "bus") as bus:
        log = list(bus.read())
        pids = agents_of(bus)
        stats = QueueStats.of(Queue.open(bus, "examine.request"))
        beats = {beat.agent: beat.liveness for beat in bus.heartbeats.list()}
        unread = Inbox(bus, "coordinator").unread(1000)
    tasks = {m.id: m.payload["path"] for m in log if m.type == "examine.request"}
    answers = [message for message in log if message.type == "examine.done"]
    assert sorted(tasks.values()) == sorted(paths)
    assert Counter(answer.in_reply_to for answer in answers) == Counter(list(tasks))
    assert all(answer.correlation_id == answer.in_reply_to for answer in answers)
    assert (stats.completed, stats.waiting, stats.running) == (300, 0, 0)
    assert stats.lost >= 1  # a worker claims several small jobs at once
    assert unread == 0

    takeover = summary["proof"]["takeover"]
    (killing,) = (message for message in log if message.type == "examine.killed")
    (held,) = (message for message in log if message.type == "examine.held")
    (answer,) = (answer for answer in answers if answer.in_reply_to == held.in_reply_to)
    assert held.from_agent == killing.payload["agent"] == takeover["killed"]
    assert killing.payload["pid"] == takeover["pid"] == pids[held.from_agent]
    assert answer.from_agent == takeover["taken_over_by"] != held.from_agent
    assert held.seq < killing.seq < answer.seq
    assert killing.payload["seq"] == 150  # halfway

    assert set(pids) == {"worker-1", "worker-2", "worker-3"}
    assert not [agent for agent, pid in pids.items() if pid and is_running(pid)]
    assert [a for a, liveness in beats.items() if liveness != "stopped"] == [held.from_agent]
    lines = (tmp_path / "bus/bus.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines][: len(log) - 1] == [m.id for m in log[:-1]]


def test_report_for_people_is_plain_in_a_pipe_and_its_next_steps_work(
    run_bus: RunBus, tmp_path: Path
) -> None:
    """C-09: the commands that the report names exist, and find what it says."""
    write_tree(tmp_path / "tree", 12)
    (tmp_path / "tree/evil\x1b[31m.txt").write_text("long " * 1000)
    done = run_bus("demo", tmp_path / "tree", "--dir", tmp_path / "bus")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert r"evil\x1b[31m.txt" in done.out
    assert "13 tasks, 13 of them examined under a claim, 13 reported exactly once" in done.out
    assert "was killed on purpose" in done.out
    assert str(tmp_path / "bus/bus.jsonl") in done.out
    steps = [line.split()[1:] for line in done.out.splitlines() if line.startswith("  bus ")]
    assert [step[0] for step in steps] == ["tail", "trace", "queue", "agents", "ui"]
    assert steps.pop() == ["ui", "--dir", str(tmp_path / "bus")]
    assert done.out.endswith(f"Remove what the demo made:\n  rm -rf {tmp_path}/bus\n")
    shown = {step[0]: run_bus(*step) for step in steps}
    assert {name: ended.code for name, ended in shown.items()} == dict.fromkeys(shown, 0)
    assert f"the bus is in {tmp_path}/bus, and stays there" in done.err
    assert "examine.held" in shown["trace"].out
    assert "examine.done" in shown["trace"].out
    assert "expired" not in shown["trace"].out


def test_a_folder_that_was_there_before_is_not_to_be_removed(
    run_bus: RunBus, tmp_path: Path
) -> None:
    """A person who pastes the last line keeps what is beside the bus."""
    write_tree(tmp_path / "tree", 1)
    where = tmp_path / "my files"
    where.mkdir()
    done = run_bus("demo", tmp_path / "tree", "--dir", where)
    assert done.code == 0, done.err
    assert "rm -rf" not in done.out
    assert done.out.endswith(f"  and the bus in '{where}', a folder that was there before\n")


def test_report_counts_one_thing_as_one_and_leaves_out_what_there_is_none_of(
    run_bus: RunBus, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/note.txt").write_text("word\n")
    done = run_bus("demo", tmp_path / "tree", "--dir", tmp_path / "bus")
    assert "has assigned 1 task;" in done.err
    assert "In all: 1 file, 5 bytes, 1 line, in " in done.out
    assert "1 task, 1 of them examined under a claim, 1 reported exactly once; 1 result" in done.out
    assert not [word for word in ("Python without", "could not", "left out") if word in done.out]


def test_a_terminal_sees_how_far_the_demo_is(tmp_path: Path, bus_env: dict[str, str]) -> None:
    """A line on stderr that is gone at the end; stdout, a pipe here, has the report alone."""
    write_tree(tmp_path / "tree", 1)
    ours, theirs = pty.openpty()
    command = [BUS, "demo", str(tmp_path / "tree"), "--dir", str(tmp_path / "bus")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**bus_env, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: read_terminal(ours), b""))
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert b"examining" in shown
    assert b"examining" not in out
    assert b"Remove what the demo made:" in out


def read_terminal(terminal: int) -> bytes:
    """The next bytes that a terminal shows; none once no process has it open."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_what_cannot_be_read_is_reported_as_failed_and_what_is_binary_left_out(
    run_bus: RunBus, tmp_path: Path
) -> None:
    """A path that is longer than the system takes can't be opened, by the superuser either."""
    root = tmp_path / "tree"
    write_tree(root, 2)
    (root / "image.png").write_bytes(b"\x89PNG\0")
    limit = os.pathconf(root, "PC_PATH_MAX")
    deep = root
    while len(str(deep)) + 202 < limit - 60:
        deep = deep / ("d" * 100)
        deep.mkdir()
    folder = os.open(deep, os.O_RDONLY)
    name = "f" * 250
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    try:
        results, summary = run_json(run_bus, root, tmp_path / "bus")
    finally:
        os.unlink(name, dir_fd=folder)
        os.close(folder)
    failed = [result for result in results if "error" in result]
    assert [(Path(result["path"]).name, result["error"]) for result in failed] == [
        (name, "File name too long")
    ]
    totals = summary["totals"]
    assert (totals["files"], totals["failed"], summary["binary"]) == (2, 1, 1)
    assert summary["proof"]["holds"]


def test_nothing_to_examine_is_one_line_and_exit_4(run_bus: RunBus, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\0")
    done = run_bus("demo", tmp_path, "--dir", tmp_path / "bus")
    assert (done.code, done.out) == (4, "")
    assert done.err == f"bus: nothing to examine: no text files in {tmp_path}\n"
    assert not (tmp_path / "bus").exists()


@pytest.mark.parametrize("path", ["missing", "file"])
def test_path_that_is_no_directory_is_one_line_and_exit_2(
    path: str, run_bus: RunBus, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("text")
    done = run_bus("demo", tmp_path / path, "--dir", tmp_path / "bus")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "can't examine" in done.err


def test_a_bus_that_is_in_use_is_refused_and_left_as_it_was(
    run_bus: RunBus, tmp_path: Path, bus: Bus, bus_dir: Path
) -> None:
    bus.publish("note", from_agent="somebody")
    write_tree(tmp_path / "tree", 2)
    done = run_bus("demo", tmp_path / "tree", "--dir", bus_dir)
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert bus.log.newest_seq() == 1


@contextmanager
def demo_at_work(tree: Path, where: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that has all its agents and has killed its worker: a takeover is still to come."""
    command = [BUS, "demo", str(tree), "--dir", str(where)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        try:
            wait_until(lambda: is_amid(where) or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()


def is_amid(where: Path) -> bool:
    try:
        with Bus.open(where) as bus:
            killed = any(bus.read(type="examine.killed"))
            return killed and len(agents_of(bus)) == 3
    except BusNotFound:
        return False


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_agents_end_with_the_demo_however_it_ends(
    ending: signal.Signals, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """Ctrl-C, kill, and kill -9: no process is left, and the bus is whole."""
    write_tree(tmp_path / "tree", 10)
    where = tmp_path / "bus"
    with demo_at_work(tmp_path / "tree", where, bus_env) as process:
        process.send_signal(ending)
        out, err = process.communicate(timeout=60)
    with Bus.open(where) as bus:
        pids = agents_of(bus)
        wait_until(lambda: not any(is_running(pid) for pid in pids.values() if pid))
        assert file_of(bus).value("PRAGMA integrity_check") == "ok"
    assert (out, b"Traceback" in err) == (b"", False)
    if ending == signal.SIGINT:
        assert process.returncode == 130
    else:
        assert process.returncode == -ending


@pytest.mark.parametrize(("more", "code"), [(1, 0), (2, 1)])
def test_demo_goes_on_while_one_worker_is_left(
    more: int, code: int, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """M-75: somebody else's kill -9 loses nothing either; without workers the demo gives up."""
    write_tree(tmp_path / "tree", 10)
    where = tmp_path / "bus"
    with demo_at_work(tmp_path / "tree", where, bus_env) as process:
        with Bus.open(where) as bus:
            (killing,) = bus.read(type="examine.killed")
            pids = agents_of(bus)
        living = sorted(pids.keys() - {killing.payload["agent"]})
        for worker in living[:more]:
            pid = pids[worker]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    for worker in living[:more]:
        assert f"bus: {worker} ended unexpectedly\n" in err.decode()
    assert (b"10 reported exactly once" in out) == (code == 0)
    assert (b"lost all its workers" in err) == (code == 1)
    assert not any(is_running(pid) for pid in pids.values() if pid)


def test_files_of_the_working_directory_are_never_imported(run_bus: RunBus, tmp_path: Path) -> None:
    """The tree under examination may hold a file with the name of a module."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working directory')\n")
    write_tree(tmp_path, 3)
    done = run_bus("demo", "--dir", tmp_path / "elsewhere", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 5


def test_page_that_is_not_installed_is_offered_with_its_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "is_installed", lambda extra: False)
    lines = [line.strip() for line in report._last_steps("/a/bus", [])]
    assert lines[1].endswith("ui --dir /a/bus")
    assert lines[3] == install_command("server")
