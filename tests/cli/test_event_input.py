"""Issue 31, item 12: input of another program is read to its first whole value, and 5 s at most."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.cli.fast import agent_hooks
from ackbus.cli.fast.agent_hooks import INPUT_S

from ..conftest import Ended
from ..sizes import sampled
from .conftest import BUS

#: What a program writes, in parts, and leaves open.
WHOLE = {
    "the least": [b"{}"],
    "a line": [b'{"session_id": "s"}\n'],
    "in parts": [b'{"a": {}', b', "b": [1, {"c": "}"}', b"]}"],
    "a letter in two": [b'{"a": "\xc3', b'\xbc"}'],
    "two values": [b'{"session_id": "s"}\n{"session_id": "t"}\n'],
    "value and noise": [b"{} and more"],
    "blanks before": [b" \n", b"\t{}"],
    "UTF-16": ['{"a": "ü"}'.encode("utf-16")],
    "a mark before": [b"\xef\xbb\xbf{}"],
    "null": [b"null"],
    "a number": [b"1", b"2"],
    "a text": [b'"}"'],
    "a long one": [json.dumps({"prompt": "}" * 3_000_000}).encode()],
    "many small ones": [b'{"a": [', *[b"{}," for _ in range(3000)], b"{}]}"],
}
PARTS = {"nothing": [], "half": [b'{"a": '], "noise": [b"{nonsense"], "blanks": [b"  \n"]}
HOOKS = [(program, event) for program, events in agent_hooks.ANSWERS.items() for event in events]


@pytest.fixture
def mail(bus_dir: Path) -> Path:
    """A project in which mail waits for the agent."""
    with Bus.open(bus_dir) as bus:
        bus.heartbeats.beat("me")
        bus.publish("t", "hi", from_agent="you", to_agent="me")
    return bus_dir.parent


def run_open(words: list[str], parts: list[bytes], place: Path, env: dict[str, str]) -> Ended:
    """The installed command, before a pipe that stays open until it has ended."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        process = subprocess.Popen(
            [BUS, *words],
            cwd=place,
            env=env,
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(reading)
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[pipe.write(rest) :]
        out, err = process.communicate(timeout=100)
    return Ended(process.returncode, out.decode(), err.decode())


@pytest.mark.slow
@pytest.mark.parametrize("parts", WHOLE.values(), ids=WHOLE)
def test_first_whole_value_is_enough(
    parts: list[bytes], mail: Path, bus_env: dict[str, str]
) -> None:
    done = run_open(["hook", "tool", "claude", "--agent", "me"], parts, mail, bus_env)
    assert (done.code, done.err) == (0, "")
    assert "1 unread on the bus" in json.loads(done.out)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "event"), sampled(HOOKS, every=6))
def test_no_hook_waits_for_the_end(
    program: str, event: str, mail: Path, bus_env: dict[str, str]
) -> None:
    done = run_open(["hook", event, program, "--agent", "me"], [b"{}"], mail, bus_env)
    assert done.code == 0
    assert done.out


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_what_is_never_whole_ends_with_a_line_on_stderr(
    parts: list[bytes], mail: Path, bus_env: dict[str, str]
) -> None:
    done = run_open(["hook", "tool", "claude", "--agent", "me"], parts, mail, bus_env)
    line = f"bus: no whole description of the event came within {INPUT_S:g} s\n"
    assert done == Ended(0, "", line)
