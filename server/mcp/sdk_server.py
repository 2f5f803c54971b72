"""The SDK's server on stdin and stdout, from the line where the front ends. Loads the SDK."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from ...bus.reservations.project_paths import project_root
from ...schema.errors import InvalidInput, UnknownRecipientWarning
from ...subscribers.jobs.errors import UnservedRequestWarning
from .front import Front
from .joined_agents import Home
from .protocol import Protocol
from .session import Session

#: The notification that a client sends when it has the answer to its first request.
_INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def go_on(
    home: Home,
    front: Front,
    left: bytes,
    streams: tuple[int, BinaryIO],
    *,
    agent: str | None,
    holder: str | None,
    profile: str,
) -> None:
    """Serve tools until stdin ends. Blocks.

    Args:
        home: the bus.
        front: has answered until now.
        left: what was read of stdin and not answered.
        streams: stdin and stdout.
        agent, holder: as for `Session`.
        profile: which tools it is offered.
    """
    # The result says it, and the client would show it to nobody.
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    session = Session(home, agent, holder=holder, root=_root)
    protocol = Protocol(lambda context: session, lambda context: profile)
    source, sink = streams
    anyio.run(_serve, protocol, front, _Input(left, source), sink)


async def _serve(protocol: Protocol, front: Front, source: io.RawIOBase, sink: BinaryIO) -> None:
    lines = io.TextIOWrapper(io.BufferedReader(source), encoding="utf-8", errors="replace")
    written = io.TextIOWrapper(sink, encoding="utf-8")
    streams = ResumedStreams(front, anyio.wrap_file(lines), anyio.wrap_file(written))
    await serve_streams(protocol, streams)


async def serve_streams(protocol: Protocol, streams: Any) -> None:
    """Serve tools on what is read from and written to as the SDK does with its two files."""
    server = protocol.server()
    async with stdio_server(streams, streams) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class ResumedStreams:
    """The streams of a connection that the front has opened.

    The server first hears of the opening; its answer is dropped, since the client has one.

    Args:
        front: has answered until now.
        lines: the further lines of the client.
        sink: is written to, and flushed.
    """

    def __init__(self, front: Front, lines: AsyncIterable[str], sink: Any) -> None:
        self._front = front
        self._lines = lines
        self._sink = sink
        self._is_open = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        if self._front.opening is None:
            self._is_open.set()
        else:
            yield self._front.opening.decode()
            await self._is_open.wait()  # else another answer might be the first
        if self._front.is_ready:
            yield _INITIALIZED
        async for line in self._lines:
            yield line

    async def write(self, text: str) -> None:
        """Write an answer."""
        if self._is_open.is_set():
            await self._sink.write(text)
        else:
            self._is_open.set()

    async def flush(self) -> None:
        """Send what was written."""
        await self._sink.flush()


class _Input(io.RawIOBase):
    """A file, and before it what was read of it already."""

    def __init__(self, read: bytes, file: int) -> None:
        self._read = memoryview(read)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._read:
            return os.readv(self._file, [into])
        count = min(len(self._read), len(into))
        into[:count], self._read = self._read[:count], self._read[count:]
        return count


def _root(bus_directory: str) -> str:
    """Return the folder from which paths count.

    Some programs start their servers in any folder; then the bus names the project.
    """
    try:
        return project_root(bus_directory)
    except InvalidInput:
        return os.path.dirname(bus_directory)
