"""bus top: a live picture on a real terminal, which is as it was when it ends."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ackbus import Bus, Inbox, Queue
from ackbus.cli.top.running import picture
from ackbus.cli.top.snapshot import Watcher
from ackbus.model import QueueStats

from ..conftest import RunBus, wait_until
from .conftest import BUS, StartBus


@pytest.fixture
def busy(bus: Bus) -> Bus:
    """A bus with agents, a queue and messages, of which some are attacks on a terminal."""
    bus.heartbeats.beat("worker-1", "working", task="tests of the parser")
    Inbox(bus, "reader").ack(bus.publish("note", "first", from_agent="lead").seq)
    Queue.create(bus, "reviews", "review.*")
    bus.publish("review.request", "please \x1b]0;owned\x07", from_agent="lead")
    return bus


class Terminal:
    """A command on a terminal of a certain size."""

    def __init__(self, project: Path, env: dict[str, str], *args: str, lines: int, columns: int):
        self._ours, self.theirs = pty.openpty()
        self.resize(lines, columns, tell=False)
        self.before = termios.tcgetattr(self.theirs)
        kept = {key: value for key, value in env.items() if key not in ("COLUMNS", "NO_COLOR")}
        self.process = subprocess.Popen(
            [BUS, *args],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=subprocess.PIPE,
            cwd=project,
            env=kept | {"TERM": "xterm-256color"},
        )
        self.shown = ""

    def resize(self, lines: int, columns: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read(self) -> str:
        while select.select([self._ours], [], [], 0)[0]:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")
        return self.shown

    def wait_for(self, text: str) -> None:
        """Waits until this is on the terminal, as a person reads it."""
        wait_until(lambda: text in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.read()))

    def ended(self) -> int:
        """The exit code; what is sent meanwhile is read, or the command could not end."""

        def is_over() -> bool:
            self.read()
            return self.process.poll() is not None

        wait_until(is_over)
        self.read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def top(busy: Bus, project: Path, bus_env: dict[str, str]) -> Iterator[Terminal]:
    """`bus top` on a terminal of 24 lines, 100 columns."""
    terminal = Terminal(project, bus_env, "top", lines=24, columns=100)
    yield terminal
    terminal.close()


def is_as_before(terminal: Terminal) -> bool:
    return (
        "\x1b[?1049l" in terminal.shown
        and "\x1b[?25h" in terminal.shown
        and termios.tcgetattr(terminal.theirs) == terminal.before
    )


@pytest.mark.slow
def test_top_shows_what_comes_and_q_ends_it(top: Terminal, busy: Bus) -> None:
    """Issue 7, item 8."""
    for text in ("worker-1", "alive", "working", "reader", "reviews", "review.request", "q ends"):
        top.wait_for(text)
    busy.publish("news", "this has just come", from_agent="lead")
    top.wait_for("this has just come")
    top.wait_for("3 messages")
    busy.heartbeats.beat("newcomer", "blocked")
    top.wait_for("newcomer")  # no bell rings for it: within a second
    assert "\x1b]0;owned" not in top.shown
    top.type("q")
    assert top.ended() == 0
    assert is_as_before(top)


def test_top_follows_the_size_of_its_terminal(top: Terminal) -> None:
    top.wait_for("q ends")
    assert 30 < width_of_newest(top) <= 100
    top.resize(8, 30)
    wait_until(lambda: width_of_newest(top) <= 30)


def width_of_newest(top: Terminal) -> int:
    """Returns the columns of the newest picture that is whole: it begins at the first place."""
    newest = next(each for each in reversed(top.read().split("\x1b[H")) if "q ends" in each)
    return max(map(len, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", newest).splitlines()))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_leaves_the_terminal_as_it_was(
    number: signal.Signals, code: int, top: Terminal
) -> None:
    top.wait_for("q ends")
    top.process.send_signal(number)
    assert top.ended() == code
    assert is_as_before(top)


def test_top_gives_the_terminal_back_until_it_goes_on(top: Terminal) -> None:
    """Ctrl-Z, then fg: the keys work as before."""
    top.wait_for("q ends")
    top.process.send_signal(signal.SIGTSTP)  # what Ctrl-Z sends
    wait_until(lambda: is_as_before(top) if top.read() else False)
    wait_until(lambda: state_of(top.process.pid) == "T")
    top.shown = ""
    top.process.send_signal(signal.SIGCONT)
    top.wait_for("q ends")
    top.type("q")
    assert top.ended() == 0
    assert is_as_before(top)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_job_that_runs_for_long_is_seen(busy: Bus, run_bus: RunBus) -> None:
    queue = Queue.open(busy, "reviews")
    assert queue.claim("reviewer") is not None
    wait_until(lambda: QueueStats.of(queue).longest_run_ms)
    stats = json.loads(run_bus("top", "--once", "--json").out)["queues"][0]
    assert (stats["running"], stats["waiting"]) == (1, 0)
    assert stats["longest_run_ms"] > 0
    assert "the longest for" in run_bus("queue", "show", "reviews").out


@pytest.mark.parametrize("size", [(1, 20), (5, 30), (8, 40), (24, 80), (60, 200)])
def test_picture_fits_any_terminal(size: tuple[int, int], busy: Bus) -> None:
    lines, columns = size
    for number in range(40):
        busy.heartbeats.beat(f"agent-{number}")
        busy.publish("t", "long " * 100, from_agent="lead")
    console = Console(width=columns, height=lines, force_terminal=True)
    with console.capture() as captured:
        console.print(picture(Watcher(busy).look(), lines))
    assert len(captured.get().splitlines()) <= lines


def test_agents_seen_last_are_shown_where_not_all_have_room(busy: Bus) -> None:
    for number in range(40):
        busy.heartbeats.beat(f"agent-{number:02}")
    began_ms = busy.now_ms()
    wait_until(lambda: busy.now_ms() > began_ms)
    busy.heartbeats.beat("agent-39")
    console = Console(width=100, height=24, force_terminal=True)
    with console.capture() as captured:
        console.print(picture(Watcher(busy).look(), 24))
    shown = re.findall(r"agent-\d\d", captured.get())
    assert f"agents: the latest {len(shown)}" in captured.get()
    assert "agent-39" in shown
    assert shown == sorted(shown)


def test_rate_is_of_the_last_seconds(busy: Bus) -> None:
    watcher, began = Watcher(busy), time.monotonic()
    assert watcher.look().per_s is None
    for _ in range(10):
        busy.publish("t", from_agent="lead")
    snapshot = watcher.look()
    assert snapshot.per_s is not None
    assert snapshot.per_s > 9 / (time.monotonic() - began)


def test_pipe_gets_one_plain_picture(busy: Bus, run_bus: RunBus) -> None:
    for line in (("top",), ("top", "--once")):
        done = run_bus(*line)
        assert (done.code, done.err) == (0, "")
        assert "\x1b" not in done.out
        for text in ("2 messages", "worker-1", "reviews", "lead → all", "review.request"):
            assert text in done.out
    record = json.loads(run_bus("top", "--once", "--json").out)
    assert record["newest_seq"] == 2
    assert [agent["agent"] for agent in record["agents"]] == ["reader", "worker-1"]
    assert record["queues"][0]["waiting"] == 1
    assert [message["seq"] for message in record["messages"]] == [1, 2]


def test_top_of_an_empty_bus(bus: Bus, run_bus: RunBus) -> None:
    done = run_bus("top")
    assert (done.code, done.err, len(done.out.splitlines())) == (0, "", 1)


def test_json_goes_on_with_each_change(busy: Bus, start_bus: StartBus) -> None:
    process = start_bus("top", "--json")
    assert process.stdout is not None
    records: list[dict[str, object]] = []
    stream = process.stdout

    def read() -> None:
        records.extend(json.loads(line) for line in stream)

    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: records)
    busy.publish("news", from_agent="lead")
    wait_until(lambda: records[-1]["newest_seq"] == 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    reader.join(60)
    assert len(records) >= 2
