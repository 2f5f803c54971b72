"""How long does an agent wait for a tool?

By the official client, from the call to its result, over both transports; what the client and the
server of the SDK take by themselves, a tool that does nothing tells.
"""

from __future__ import annotations

import asyncio
import os
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from do_nothing import NOTHING
from mcp import Client, StdioServerParameters
from measure import Options, at_most, options, percentiles, record, summary
from payloads import USUAL, payloads

from ackbus import Bus

BUS = Path(sysconfig.get_path("scripts"), "bus")

#: Calls before those that count: connections open, and modules load.
WARM_UP = 5

#: The longest that the usual call may take, in milliseconds.
MAX_P50_MS = 10


def calls(text: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the calls that are timed, by what they are named in the record."""
    return {
        "bus_send": ("bus_send", {"type": "bench.note", "payload": text}),
        "bus_inbox, one waits": ("bus_inbox", {"limit": 1}),
        "bus_ack": ("bus_ack", {"seq": 1}),
        "bus_status": ("bus_status", {}),
        "bus_reserve": ("bus_reserve", {"paths": ["src/a.py"], "mode": "shared"}),
    }


@asynccontextmanager
async def served_over_http(*command: str | Path) -> AsyncIterator[str]:
    """Start a server that prints its URL, and give that."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def timed(client: Client, tool: str, arguments: dict[str, Any]) -> float:
    """Call a tool, and return how long that took, in seconds."""
    started = time.perf_counter()
    result = await client.call_tool(tool, arguments)
    seconds = time.perf_counter() - started
    assert not result.is_error, result
    return seconds


async def ask(directory: Path, settings: Options, text: str) -> dict[str, list[list[float]]]:
    """Return the seconds of each kind of call, by round; all kinds in turn, one call of each."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    ours = StdioServerParameters(
        command=str(BUS), args=["mcp", "--dir", str(directory), "--agent", "s"], env=environment
    )
    nothing = StdioServerParameters(command=NOTHING[0], args=list(NOTHING[1:]), env=environment)
    async with AsyncExitStack() as stack:
        url, idle_url = [
            await stack.enter_async_context(served_over_http(*command))
            for command in (
                (BUS, "serve", "--port", "0", "--dir", directory),
                (*NOTHING, "http"),
            )
        ]
        over = {
            "stdio": await stack.enter_async_context(Client(ours)),
            "HTTP": await stack.enter_async_context(Client(f"{url}/mcp?agent=h")),
        }
        kinds: dict[str, tuple[Client, str, dict[str, Any]]] = {
            f"{name}, over {transport}": (client, *call)
            for transport, client in over.items()
            for name, call in calls(text).items()
        }
        for transport, server in (("stdio", nothing), ("HTTP", f"{idle_url}/mcp")):
            idle = await stack.enter_async_context(Client(server))
            kinds[f"a tool that does nothing, over {transport}"] = (idle, "nothing", {})
        seconds: dict[str, list[list[float]]] = {name: [] for name in kinds}
        for _ in range(WARM_UP):
            for kind in kinds.values():
                await timed(*kind)
        for _ in range(settings.rounds):
            of_round: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(settings.scaled(100, least=3)):
                for name, kind in kinds.items():
                    of_round[name].append(await timed(*kind))
            for name, each in of_round.items():
                seconds[name].append(each)
        return seconds


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    with Bus.init(folder) as bus:
        bus.publish("bench.note", payload.text, from_agent="bench")
    seconds = asyncio.run(ask(folder, settings, payload.text))
    targets = [
        at_most(
            f"p50, {transport}, the slowest tool",
            MAX_P50_MS,
            max(
                (
                    summary([percentiles(round)["p50_ms"] for round in rounds])
                    for name, rounds in seconds.items()
                    if name.startswith("bus_") and name.endswith(transport)
                ),
                key=lambda each: each["median"],
            ),
            "ms",
        )
        for transport in ("over stdio", "over HTTP")
    ]
    record(
        "a call of a tool by an agent: milliseconds",
        {
            name: percentiles([s for each in rounds for s in each])
            for name, rounds in seconds.items()
        },
        settings,
        targets=targets,
        conditions={"payloads": [payload.described()], "protocol": "2026-07-28"},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
