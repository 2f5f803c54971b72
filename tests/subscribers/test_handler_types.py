"""Handlers that would never run, as a type checker sees them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

#: Each line that ends in `# refused` is a mistake that must be found, and no other line is one.
PROGRAM = """
from collections.abc import AsyncIterator, Iterator
from functools import partial

from ackbus import Bus, Inbox, Message, Session, Worker


def plain(message: Message) -> None: ...
async def coroutine(message: Message) -> None: ...
def generator(message: Message) -> Iterator[int]:
    yield message.seq
async def async_generator(message: Message) -> AsyncIterator[int]:
    yield message.seq
def answering(message: Message) -> int:
    return message.seq


async def use(bus: Bus, inbox: Inbox, session: Session, worker: Worker) -> None:
    seen: list[int] = []
    inbox.run(plain)
    inbox.run(lambda message: seen.append(message.seq))
    inbox.run(partial(plain))
    inbox.run(coroutine)  # refused
    inbox.run(lambda message: coroutine(message))  # refused
    inbox.run(generator)  # refused
    inbox.run(async_generator)  # refused
    session.run(plain)
    session.run(coroutine)  # refused
    session.run(generator)  # refused
    session.run(async_generator)  # refused
    await inbox.run_async(coroutine)
    await inbox.run_async(plain)  # refused
    await inbox.run_async(generator)  # refused
    await inbox.run_async(async_generator)  # refused
    worker.run(plain)
    worker.run(answering)
    worker.run(coroutine)
    await worker.run_async(coroutine)
    await worker.run_async(answering)  # refused
    await worker.run_async(generator)  # refused
    await worker.run_async(async_generator)  # refused
"""


@pytest.mark.slow
def test_type_checker_refuses_handlers_that_would_never_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error:", checked.stdout)}
    lines = enumerate(PROGRAM.splitlines(), 1)
    expected = {number for number, line in lines if line.endswith("# refused")}
    assert len(expected) > 10
    assert found == expected, checked.stdout + checked.stderr
