"""The doors of a bus that only look: every GET of the server, and every tool that only reads."""

import json
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile

import httpx

from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.mcp.tools.profiles import FULL

from ..command_server import CommandServer
from .walk import HANG_S, MEMORY, Walk

#: What stands for a parameter of an address, by its name, and for all others.
_PARAMETERS = {
    "seq": "14",
    "queue": "work",
    "agent": "bob",
    "key": "m-1",
    "conversation": "m-9",
    "token": "1",
    "session": "p",
    "q": "small",
    "id": "m-1",
}

#: Streams that only end with their client.
_STREAMS = ("/v1/events", "/v1/sessions/{session}/events")

#: What the document doesn't list: the page, and the doors in PushPals' forms.
_BESIDES = (
    *("/", "/page/project", "/page/x", "/jobs", "/jobs/p/logs", "/requests", "/completions"),
    *(
        "/workers",
        "/system/status",
        "/autonomy/snapshot?sessionId=p",
        "/autonomy/state?sessionId=p",
    ),
    *("/autonomy/snapshots/p", "/v1/queues?window_s=60", "/v1/messages?limit=1"),
)

_CALLS = {
    "bus_receipts": {"message": "m-1"},
    "bus_thread": {"message": "m-1"},
    "bus_search": {"words": "small"},
    "bus_check": {"conversation": "m-9"},
}


def ask_server(walk: Walk, server: CommandServer, folder: Path, directory: Path) -> None:
    """Asks a server of a bus for everything, and notes what went wrong.

    Args:
        walk: whose faults they are.
        server: runs commands that are servers.
        folder: where the server runs.
        directory: of the bus.
    """
    words = ["serve", "--json", "--port", "0", "--pushpals", "--open", "--dir", str(directory)]
    out, theirs = os.pipe()
    with TemporaryFile() as err, open(os.devnull) as nothing, os.fdopen(out, "rb") as lines:
        with server.start(
            [os.fsencode(word) for word in words],
            (nothing.fileno(), theirs, err.fileno()),
            cwd=folder,
            env=walk.around.environment,
        ) as command:
            os.close(theirs)
            resource.prlimit(command.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            if line := lines.readline():
                walk.faults += _asked(json.loads(line)["url"], walk.is_broken)
                command.terminate()
            _end(walk, command, "serve")
        err.seek(0)
        _note(walk, "serve", err.read().decode(errors="replace"))


def call_tools(walk: Walk, server: CommandServer, folder: Path, directory: Path) -> None:
    """Calls each tool that only reads, and notes what went wrong."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    requests = [("initialize", hello), ("tools/list", {}), *_calls()]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    words = ["mcp", "--agent", "bob", "--profile", FULL, "--dir", str(directory)]
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write("\n".join([*lines, ""]).encode())
        given.seek(0)
        with server.start(
            [os.fsencode(word) for word in words],
            (given.fileno(), out.fileno(), err.fileno()),
            cwd=folder,
            env=walk.around.environment,
        ) as command:
            resource.prlimit(command.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            _end(walk, command, "mcp")
        for stream in (out, err):
            stream.seek(0)
            _note(walk, "mcp", stream.read().decode(errors="replace"))


def _calls() -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, tool in tools_of(FULL).items():
        if tool.only_reads:
            yield "tools/call", {"name": name, "arguments": _CALLS.get(name, {})}


def _asked(url: str, is_broken: bool) -> Iterator[str]:
    with httpx.Client(base_url=url, timeout=HANG_S) as client:
        paths = [*_addresses(client.get("/v1/openapi.json").json()), *_BESIDES]
        for path in paths:
            try:
                answer = client.get(path)
            except httpx.HTTPError as error:
                yield f"GET {path}: {error!r}"
                continue
            is_told = (is_broken and '"table":' in answer.text) or "in the table" in answer.text
            if answer.status_code == 500 and not is_told:
                yield f"GET {path}: 500 {answer.text[:300]}"


def _addresses(document: Mapping[str, dict[str, dict[str, dict[str, object]]]]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        if "get" not in operations or path in _STREAMS:
            continue
        address = path
        for name, value in _PARAMETERS.items():
            address = address.replace(f"{{{name}}}", value)
        if "{ref}" in address:
            address = address.replace("{ref}", f"sha256-{'0' * 64}")
        assert "{" not in address, f"give {address} a value in _PARAMETERS"
        yield f"{address}?words=small" if path == "/v1/search" else address


def _end(walk: Walk, command: object, name: str) -> None:
    try:
        command.wait(HANG_S)  # type: ignore[attr-defined]
    except subprocess.TimeoutExpired:
        walk.faults.append(f"{name}: has not ended within {HANG_S} s")


def _note(walk: Walk, name: str, said: str) -> None:
    if "Traceback" in said and not (walk.is_broken and name == "serve"):
        walk.faults.append(f"{name}: {said[-600:]}")
    if ran := walk.around.ran():
        walk.faults.append(f"{name}: ran {', '.join(ran)}")
