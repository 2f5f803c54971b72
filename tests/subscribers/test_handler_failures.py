"""Issue 31, item 4: no callback of a user fails without a word in the log."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Inbox, Message, Session, Worker


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def typo(message: Message) -> None:
    """Fails in one of three ways."""
    if message.payload == "other line":
        raise NameError("name 'y' is not defined")
    if message.payload == "unspeakable":
        raise Unspeakable
    raise NameError("name 'x' is not defined")


async def awaited_typo(message: Message) -> None:
    await asyncio.sleep(0)
    typo(message)


#: Each way in which a user's function handles messages, to the end of what waits.
WAYS: dict[str, Callable[[Bus], object]] = {
    "Inbox.run": lambda bus: Inbox(bus, "a", retry_pause_s=0.001).run(typo, drain=True),
    "Inbox.run_async": lambda bus: asyncio.run(
        Inbox(bus, "a", retry_pause_s=0.001).run_async(awaited_typo, drain=True)
    ),
    "Session.run": lambda bus: in_session(bus),
    "Session.run_async": lambda bus: asyncio.run(in_session_async(bus)),
    "Worker.run": lambda bus: Worker(bus, "work", beats=False).run(typo, drain=True),
    "Worker.run_async": lambda bus: asyncio.run(
        Worker(bus, "work", beats=False).run_async(awaited_typo, drain=True)
    ),
}


def in_session(bus: Bus) -> None:
    with Session(bus, "a", retry_pause_s=0.001) as session:
        session.run(typo, drain=True)


async def in_session_async(bus: Bus) -> None:
    with Session(bus, "a", retry_pause_s=0.001) as session:
        await session.run_async(awaited_typo, drain=True)


@pytest.mark.parametrize("name", WAYS)
def test_each_kind_of_failure_is_told_with_its_traceback_once(
    name: str, bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    recipient = None if "Worker" in name else "a"
    bus.heartbeats.beat("a")
    payloads = ["line", "other line", "unspeakable", "line", "other line"]
    for payload in payloads:
        bus.publish("work", payload, from_agent="boss", to_agent=recipient)
    with caplog.at_level(logging.WARNING, "ackbus"):
        WAYS[name](bus)
    traces = [record.exc_text or "" for record in caplog.records if record.exc_info]
    assert len(traces) == 3, caplog.text
    assert all("in typo" in trace for trace in traces)
    for words in ("'x' is not defined", "'y' is not defined", "Unspeakable"):
        assert words in caplog.text
    # Each message that is given up is told of, too.
    for seq in range(1, 1 + len(payloads)):
        assert f"message {seq}" in caplog.text


def test_failure_is_seen_where_nobody_has_set_up_logging(bus: Bus) -> None:
    """The smallest input: a typo in the handler of a program."""
    bus.heartbeats.beat("a")
    bus.publish("t", "x", from_agent="b", to_agent="a")
    program = """\
import sys
from ackbus import Bus, Inbox
def handle(message):
    pritn(message)
with Bus.open(sys.argv[1]) as bus:
    Inbox(bus, "a", retry_pause_s=0.001).run(handle, drain=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(bus.directory))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("Traceback") == 1
    assert "NameError: name 'pritn' is not defined" in done.stderr
    assert "(parked)" in done.stderr
