"""The SDK's server on stdin and stdout, from the line where the front ends. Loads the SDK."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, BinaryIO, TextIO

import anyio
from mcp.server.stdio import stdio_server
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

from ...bus.reservations.reservations import project_root
from ...schema.errors import (
    AnsweredAgainWarning,
    InvalidInput,
    NotActedUponWarning,
    UnknownRecipientWarning,
)
from ...subscribers.jobs.errors import UnservedRequestWarning
from .front import Front
from .http import Unreadable, read_message
from .protocol import Protocol
from .session import BusHandle, McpSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .stdio import StdinReader

#: The notification that a client sends when it has the answer to its first request.
_INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

#: The notification that a client cancels a request.
_CANCELLED = "notifications/cancelled"

#: How long the last answers may take after the end of the lines, in seconds.
_LAST_ANSWERS_S = 10.0


def go_on(
    home: BusHandle,
    front: Front,
    streams: tuple[ReplayedInput, BinaryIO],
    *,
    agent: str | None,
    holder: str | None,
    profile: str,
) -> None:
    """Serve tools until stdin ends. Blocks.

    Args:
        home: the bus.
        front: has answered until now.
        streams: stdin, and stdout.
        agent, holder: as for `McpSession`.
        profile: which tools it is offered.
    """
    # The result has the warning, and the client would show the log to nobody.
    warnings.simplefilter("ignore", AnsweredAgainWarning)
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", NotActedUponWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    session = McpSession(home, agent, holder=holder, root=_root)
    protocol = Protocol(lambda context: session, lambda context: profile)
    source, sink = streams
    lines = io.BufferedReader(source)
    written = io.TextIOWrapper(sink, encoding="utf-8")
    anyio.run(_serve, protocol, front, lines, written, home.end_waiting)


async def _serve(
    protocol: Protocol,
    front: Front,
    lines: BinaryIO,
    written: TextIO,
    end_waiting: Callable[[], None],
) -> None:
    streams = ResumedStreams(
        front, anyio.wrap_file(lines), anyio.wrap_file(written), end_waiting=end_waiting
    )
    await serve_streams(protocol, streams)


async def serve_streams(protocol: Protocol, streams: Any) -> None:
    """Serve tools on what is read from and written to as the SDK does with its two files."""
    server = protocol.server()
    async with stdio_server(streams, streams) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class ResumedStreams:
    """The streams of a connection that the front has opened, on which each request is answered.

    The server first gets the opening; its answer is dropped, since the client has one. The end
    of the lines is kept from it until it has answered: it would break off what it has begun.

    Args:
        front: has answered until now.
        lines: the further lines of the client.
        sink: is written to, and flushed.
        end_waiting: is called at the end of the lines, and makes calls come back that wait.
    """

    def __init__(
        self,
        front: Front,
        lines: AsyncIterable[bytes],
        sink: Any,
        *,
        end_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._front = front
        self._lines = lines
        self._sink = sink
        self._end_waiting = end_waiting
        self._is_open = anyio.Event()
        self._writing = anyio.Lock()
        # The ids of requests that have no answer yet, as text: by that the SDK cancels them.
        self._asked: set[str] = set()
        self._has_ended = False
        self._is_answered = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        if self._front.opening is None:
            self._is_open.set()
        else:
            yield self._front.opening.decode()
            await self._is_open.wait()  # the answer to the opening must come first
        if self._front.is_ready:
            yield _INITIALIZED
        async for line in self._lines:
            try:
                message = read_message(line)
            except Unreadable as error:
                if line.endswith(b"\n"):  # else stdin ended within the line, and nobody waits
                    await self._send(error.answer)
                continue
            if message is not None:
                self._note(message)
                yield line.decode()
        self._end_waiting()
        self._has_ended = True
        if not self._asked:
            return
        with anyio.move_on_after(_LAST_ANSWERS_S):
            await self._is_answered.wait()

    def _note(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._asked.add(str(message.id))
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))  # it gets no answer

    def _settle(self, id: object) -> None:
        self._asked.discard(str(id))
        if self._has_ended and not self._asked:
            self._is_answered.set()

    async def write(self, text: str) -> None:
        """Send a line of the server."""
        if not self._is_open.is_set():
            self._is_open.set()
            return
        await self._send(text)
        message = json.loads(text)
        if "method" not in message:
            self._settle(message.get("id"))

    async def _send(self, text: str) -> None:
        async with self._writing:
            await self._sink.write(text)
            await self._sink.flush()

    async def flush(self) -> None:
        """Do nothing: each line is sent at once."""


class ReplayedInput(io.RawIOBase):
    """The bytes that a client writes, and before them those that were read already."""

    def __init__(self, read: bytes, source: StdinReader) -> None:
        self._read = memoryview(read)
        self._source = source

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: Any) -> int:
        """Read as soon as there is something, as buffers ask for it."""
        data = self._read[: len(into)] or self._source.read(len(into))
        self._read = self._read[len(data) :]
        into[: len(data)] = data
        return len(data)


def _root(bus_directory: str) -> str:
    """Return the folder from which paths count.

    Some programs start their servers in any folder; then the bus names the project.
    """
    try:
        return project_root(bus_directory)
    except InvalidInput:
        return os.path.dirname(bus_directory)
