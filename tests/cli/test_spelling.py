"""The agent of a command, however it is named; and the question before what can't be undone."""

import os
import pty
import select
import subprocess

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus
from .conftest import assert_error


@pytest.mark.parametrize(
    "line", ["poll ann", "poll --agent ann", "poll --agent=ann", "poll --limit 5 --agent ann"]
)
def test_an_agent_is_a_word_or_an_option(run_bus: RunBus, bus: Bus, line: str) -> None:
    bus.heartbeats.beat("ann")
    bus.publish("note", "x", from_agent="lead", to_agent="ann")
    assert run_bus(*line.split()).out.startswith("1  ")


def test_an_agent_is_named_once(run_bus: RunBus, bus: Bus) -> None:
    assert_error(run_bus("poll", "ann", "--agent", "bob"), 2, "ann")


def test_a_listener_takes_its_agent_from_the_environment(run_bus: RunBus, bus: Bus) -> None:
    bus.heartbeats.beat("ann")
    bus.publish("note", "x", from_agent="lead", to_agent="ann")
    line = ["listen", "--drain", "--no-session", "--", "sh", "-c", "cat >/dev/null"]
    assert_error(run_bus(*line), 2)
    assert run_bus(*line, env={"BUS_AGENT": "ann"}).code == 0
    assert Inbox(bus, "ann").poll() == []


def test_a_former_name_of_an_option_is_unknown(run_bus: RunBus, bus: Bus) -> None:
    assert_error(run_bus("lease", "acquire", "deploy", "--holder", "ann"), 2, "--holder")


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y", 0, None), ("n", 3, "idle"), ("", 3, "idle")]
)
def test_a_person_is_asked_before_what_can_not_be_undone(
    bus: Bus, bus_env: dict[str, str], answer: str, code: int, left: str | None
) -> None:
    bus.heartbeats.beat("ann", "offline")
    ours, theirs = pty.openpty()
    command = ["bus", "agents", "forget", "ann", "--dir", str(bus.layout.directory)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=bus_env, start_new_session=True
    )
    os.close(theirs)
    try:
        shown = b""
        while b"[y/N]" not in shown:
            assert select.select([ours], [], [], 60)[0]
            shown += os.read(ours, 4096)
        assert b"forget agent 'ann'?" in shown
        os.write(ours, f"{answer}\n".encode())
        assert process.wait(timeout=60) == code
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert (bus.heartbeats.get("ann") is not None) == (left is not None)


@pytest.mark.parametrize("option", [[], ["--yes"]])
def test_a_script_is_not_asked(run_bus: RunBus, bus: Bus, option: list[str]) -> None:
    bus.heartbeats.beat("ann", "offline")
    assert run_bus("agents", "forget", "ann", *option).code == 0
    assert bus.heartbeats.get("ann") is None
