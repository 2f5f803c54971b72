"""How much of a processor does `bus mcp` take until an agent has its tools, and for a first call?

From the start of the process to its end, against a Python that does nothing and a server of the
same SDK that has one tool; and how long ten that start at once take, until the last has listed.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from do_nothing import NOTHING
from measure import Contender, Options, at_most, compare, options, ratio, record, spreads

from ackbus import Bus

#: How many agents start at once.
TOGETHER = 10

#: The most that the first answers may take, in bare Pythons.
MAX_PYTHONS = 3

#: What a client says first, and a call.
HELLO = {"name": "bench", "version": "1"}
OPENING: Sequence[dict[str, Any]] = (
    {
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": HELLO},
    },
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/list"},
)
CALL = {"id": 2, "method": "tools/call", "params": {"name": "bus_join", "arguments": {"name": "b"}}}

#: All commands find the modules compiled, as after their first use.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Served:
    """A server, and the client's end of its pipes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
        )

    def ask(self, *messages: dict[str, Any]) -> None:
        """Send messages, and wait for the answers to those that are requests."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for message in messages:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
            self._process.stdin.flush()
            if "id" in message:
                answer = json.loads(self._process.stdout.readline())
                assert answer["id"] == message["id"], answer
                assert "result" in answer, answer

    def end(self) -> None:
        """End it by the end of its stdin."""
        self._process.communicate()


def processor(command: Sequence[str], *messages: dict[str, Any]) -> Contender:
    """Return a server's processor time as a contender; with no messages, that of a command."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        served = Served(command)
        served.ask(*messages)
        served.end()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(after[:2]) - sum(before[:2])

    run()
    return run


def together(command: Sequence[str], count: int) -> Contender:
    """Return the time from the start of servers at once to the last list as a contender."""

    def run() -> float:
        started = time.perf_counter()
        servers = [Served(command) for _ in range(count)]
        for served in servers:
            served.ask(*OPENING)
        seconds = time.perf_counter() - started
        for served in servers:
            served.end()
        return seconds

    return run


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    Bus.init(folder / "bus").close()
    bus = [os.path.join(sysconfig.get_path("scripts"), "bus"), "mcp", "--dir", str(folder / "bus")]
    idle = NOTHING
    count = settings.scaled(TOGETHER, least=2)
    times = compare(
        {
            "processor: a bare Python": processor([sys.executable, "-I", "-c", "pass"]),
            "processor: bus mcp, its tools are listed": processor(bus, *OPENING),
            "processor: the SDK alone, a tool is listed": processor(idle, *OPENING),
            "processor: bus mcp, and a first call": processor(bus, *OPENING, CALL),
            "at once: bus mcp": together(bus, count),
            "at once: the SDK alone": together(idle, count),
        },
        settings.rounds,
    )
    pythons = ratio(times, "processor: a bare Python", "processor: bus mcp, its tools are listed")
    record(
        "the start of MCP over stdio: microseconds of a processor for one server,"
        f" and until {count} that start at once have listed their tools",
        spreads(times),
        settings,
        targets=[at_most("bare Pythons until the tools are listed", MAX_PYTHONS, pythons)],
        conditions={"protocol": "2025-11-25"},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
