"""The answers of the SDK's server to the first requests of clients, and the files that store them.

Run it with `python tests/server/stored_answers.py --write` after a change to a tool.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import anyio
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    KNOWN_PROTOCOL_VERSIONS,
    MODERN_PROTOCOL_VERSIONS,
)

from ackbus import Bus
from ackbus.schema.errors import BusNotFound
from ackbus.server.mcp.sdk_server import Protocol, Unreadable, read_message, serve_streams
from ackbus.server.mcp.session import BusHandle, McpSession
from ackbus.server.mcp.stdio import CAPABILITIES, PROTOCOL
from ackbus.server.mcp.tools.profiles import PROFILES

Json = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "server" / "mcp"

#: The command that writes the files.
WRITE = "python tests/server/stored_answers.py --write"

LISTS = ("tools/list", "resources/list", "resources/templates/list")
AFTER_HANDSHAKE = ("ping", *LISTS)
WITHOUT_HANDSHAKE = ("server/discover", *LISTS)

INITIALIZED: Json = {"method": "notifications/initialized"}


class Wires:
    """Both ends of a connection, for the SDK's server: lines, and a list of what it writes."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.written: list[str] = []

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self.as_they_came():
            yield line.decode("utf-8", "replace")

    async def as_they_came(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line
            await anyio.wait_all_tasks_blocked()

    async def write(self, text: str) -> None:
        self.written.append(text)

    async def flush(self) -> None:
        pass


def no_session(context: object) -> McpSession:
    """A session without an agent, and without a bus: the first requests need none."""

    def open_no_bus() -> Bus:
        raise BusNotFound("no bus")

    return McpSession(BusHandle(open_no_bus))


def answers_of_sdk(profile: str, lines: Iterable[bytes]) -> list[Json]:
    """All that the SDK's server writes where each line comes when the one before is done with."""
    wires: Any = Wires(lines)

    async def run() -> None:
        await serve_streams(Protocol(no_session, lambda context: profile), wires)

    anyio.run(run)
    return [json.loads(each) for each in wires.written]


def refused(profile: str, lines: Iterable[bytes]) -> tuple[list[Json], list[Json]]:
    """The answers to lines that are no messages, and those of the SDK's server to the others."""
    refusals, others = [], []
    for line in lines:
        try:
            read_message(line)
        except Unreadable as error:
            refusals.append(json.loads(error.answer))
        else:
            others.append(line)
    return refusals, answers_of_sdk(profile, others)


def line_of(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


def hello(version: str) -> Json:
    """The request of a client that begins with a handshake."""
    about = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
    return {"id": 0, "method": "initialize", "params": params}


def results(profile: str, opening: Iterable[Json], methods: Iterable[str], params: Json) -> Json:
    """The answers of the SDK's server to each method, after an opening."""
    asked = [{"id": each, "method": each, "params": params} for each in methods]
    answers = answers_of_sdk(profile, map(line_of, [*opening, *asked]))
    found = {answer["id"]: answer["result"] for answer in answers}
    return {each: found[each] for each in methods}


def after_handshake(profile: str, version: str) -> Json:
    return results(profile, [hello(version), INITIALIZED], AFTER_HANDSHAKE, {})


def without_handshake(profile: str, version: str) -> Json:
    params = {"_meta": {PROTOCOL: version, CAPABILITIES: {}}}
    return results(profile, [], WITHOUT_HANDSHAKE, params)


def stored_answers(profile: str) -> Json:
    """All that the file of a profile has to have."""
    return {
        "initialize": {
            version: answers_of_sdk(profile, [line_of(hello(version))])[0]["result"]
            for version in KNOWN_PROTOCOL_VERSIONS
        },
        "after initialize": after_handshake(profile, HANDSHAKE_PROTOCOL_VERSIONS[-1]),
        "without initialize": {
            version: without_handshake(profile, version) for version in MODERN_PROTOCOL_VERSIONS
        },
    }


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {WRITE}")
    for name in PROFILES:
        text = json.dumps(stored_answers(name), ensure_ascii=False, indent=1)
        (FOLDER / f"answers_{name}.json").write_text(f"{text}\n", "utf-8")
