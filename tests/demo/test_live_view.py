"""The live view, drawn on terminals of several widths from a real log."""

import io
import re

import pytest
from rich.console import Console

from ackbus import Bus, Message
from ackbus.cli.demo.live_view import LiveView
from ackbus.demo.protocol import (
    COORDINATOR,
    DEMO,
    RUN_FINISHED,
    TASK_ASSIGN,
    TASK_DONE,
    TASKS_ASSIGNED,
    WORKER_KILLED,
    WORKERS,
)
from ackbus.demo.tally import Tally

PATH = "a/folder/with/files.py"
AN_HOUR_MS = 3_600_000


@pytest.fixture
def log(bus: Bus) -> Bus:
    """Two tasks: one is done, the worker of the other was killed after a beat about the first."""
    for agent in (COORDINATOR, *WORKERS):
        bus.heartbeats.beat(agent, "working", task="__init__.py")
    first, second = (bus.publish(TASK_ASSIGN, from_agent=COORDINATOR).id for _ in range(2))
    bus.publish(TASKS_ASSIGNED, from_agent=COORDINATOR)
    bus.publish(TASK_DONE, from_agent="worker-2", in_reply_to=first)
    until_ms = bus.now_ms() + AN_HOUR_MS
    payload = {"agent": "worker-1", "task": second, "path": PATH, "until_ms": until_ms}
    bus.publish(WORKER_KILLED, payload, from_agent=DEMO)
    return bus


def report_the_last_task(bus: Bus) -> None:
    killing: Message
    (killing,) = bus.read(type=WORKER_KILLED)
    bus.publish(TASK_DONE, from_agent="worker-3", in_reply_to=killing.payload["task"])


def picture(bus: Bus, width: int) -> list[str]:
    """The lines of the picture of how things stand."""
    screen = io.StringIO()
    tally = Tally(bus)
    tally.read_on()
    with LiveView(Console(file=screen, width=width, _environ={})) as view:
        view.show(tally)
    return screen.getvalue().removesuffix("\n").split("\n")


def row_of(agent: str, lines: list[str]) -> list[str]:
    (row,) = (line.split() for line in lines if line.startswith(f" {agent} "))
    return row


def test_killed_worker_is_shown_with_the_file_whose_lease_it_held(log: Bus) -> None:
    """Its last beat tells of an earlier file."""
    lines = picture(log, 100)
    assert row_of("worker-1", lines) == ["worker-1", "killed", "0", PATH]
    assert row_of("worker-2", lines)[-1] == "__init__.py"


def test_waiting_for_a_lease_is_said_with_the_seconds_left_until_the_task_is_reported(
    log: Bus,
) -> None:
    last = picture(log, 100)[-1]
    assert re.fullmatch(rf" waiting for worker-1's lease on {PATH} to end: 3[56]\d\d\.\d s", last)
    report_the_last_task(log)
    assert not [line for line in picture(log, 100) if "lease" in line]


def test_rate_at_the_end_is_the_average_of_the_run(log: Bus) -> None:
    assert picture(log, 100)[0].endswith(" messages/s")
    report_the_last_task(log)
    log.publish(RUN_FINISHED, from_agent=COORDINATOR)
    assert picture(log, 100)[0].endswith(" messages/s on average")


@pytest.mark.parametrize("width", [40, 50, 60, 80])
def test_narrow_picture_has_whole_words_and_room_for_ctrl_c_on_its_last_line(
    width: int, log: Bus
) -> None:
    lines = picture(log, width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 7  # the bar, headings, four agents, what is waited for
    assert lines[1].split()[:3] == ["agent", "status", "results"]
    assert row_of("coordinator", lines)[1:3] == ["working,", "alive"]
    assert re.search(r"worker-1's lease.*: 3[56]\d\d\.\d s$|lease: 3[56]", lines[-1])
    assert len(lines[-1]) + len("^C") < width
