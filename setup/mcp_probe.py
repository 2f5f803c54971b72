"""One call of an MCP server's tool without the SDK: JSON-RPC, a line each way.

The official client is no part of an ordinary installation, and the probe tests the program's own
way: the command of its configuration, and nothing else.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, Any

from ..schema.process_table import SESSION_VARIABLE

#: A version of the protocol that every server of today knows.
_PROTOCOL = "2025-06-18"

#: How long a server may take to start and to answer, in seconds.
_PATIENCE_S = 20.0

#: How long the end of its output is waited for when it is over, in seconds.
_GOODBYE_S = 1.0


def probing() -> dict[str, str]:
    """Return the environment of a probe: it is no session, and takes no name from one."""
    return {**os.environ, SESSION_VARIABLE: "off"}


class ProbeFailed(Exception):
    """The server did not start, or did not answer as it must."""


def call_tool(words: list[str], folder: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Start a server in a folder, call one of its tools, end it, and return the result.

    Raises:
        ProbeFailed: the call failed.
    """
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=probing(),
        )
    except OSError as error:
        raise ProbeFailed(f"{words[0]} can't be run: {os.strerror(error.errno or 0)}") from error
    server = _Server(process)
    try:
        about = {"name": "bus setup", "version": "1"}
        hello = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": about}
        server.ask("initialize", hello)
        server.tell("notifications/initialized")
        result = server.ask("tools/call", {"name": tool, "arguments": arguments})
    finally:
        server.end()
    if isinstance(result, dict) and result.get("isError"):
        raise ProbeFailed(f"{tool} failed: {_text_of(result)}")
    return result


class _Server:
    """The client side of the server; threads read its output, so that every wait ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._complaints: list[bytes] = []
        self._asked = 0
        self._deadline = time.monotonic() + _PATIENCE_S
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._listen, args=(process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request, and return the result of its response."""
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while True:
            response = self._next(method)
            if response.get("id") == self._asked and "method" not in response:
                break
        if "error" in response:
            raise ProbeFailed(f"{method} failed: {response['error']}")
        return response.get("result")

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def end(self) -> None:
        """End the server; its own children may hold its output open, and are not waited for.

        Each reader closes what it reads: closed by another, it would fail in the middle of a line.
        """
        self._process.kill()
        self._process.wait()
        with suppress(OSError):  # what was not taken is lost
            self._stdin.close()
        for reader in self._readers:
            reader.join(_GOODBYE_S)

    def _send(self, record: dict[str, Any]) -> None:
        try:
            self._stdin.write(json.dumps({"jsonrpc": "2.0", **record}).encode() + b"\n")
            self._stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _next(self, method: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0, self._deadline - time.monotonic()))
        except queue.Empty:
            raise ProbeFailed(f"no answer to {method} within {_PATIENCE_S:g} s") from None
        if not line:
            raise self._ended()
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ProbeFailed(f"the server printed what is not JSON: {line[:80]!a}") from error
        return record if isinstance(record, dict) else {}

    def _ended(self) -> ProbeFailed:
        self._readers[1].join(_GOODBYE_S)
        said = b"".join(self._complaints).decode(errors="replace").strip().splitlines()
        return ProbeFailed(f"the server ended: {said[-1] if said else 'it said nothing'}")

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            self._complaints.extend(stream)


def _text_of(result: dict[str, Any]) -> str:
    parts = result.get("content")
    texts = [part.get("text", "") for part in parts or () if isinstance(part, dict)]
    return " ".join(" ".join(map(str, texts)).split())
