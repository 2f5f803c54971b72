"""MCP over streamable HTTP: a token, an address or a session identifies the agent."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from fastapi import Request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.types import Scope as Connection

from ...bus.local_bus import LocalBus
from ...bus.presence.session_name import by_connection
from ...schema.errors import AckbusError, InvalidInput
from ...schema.process_table import process
from ..access.access import authorize, principal_of
from ..access.table import AccessRule
from ..access.tokens import Principal
from ..waiting import WRITE_TIMEOUT_S, until_gone
from .sdk_server import Protocol, Unreadable, read_message
from .session import IDLE_S, BusHandle, McpSession
from .tools.catalog import JSON
from .tools.profiles import DEFAULT, PROFILES

# Cancellation of calls over HTTP: the client disconnects before its response.


def while_there(app: ASGIApp) -> ASGIApp:
    """Return an application that is cancelled when its client disconnects.

    Requests have one body, and responses come when all is done. The SDK looks for disconnected
    clients only where it answers in streams.
    """

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        asked, answers = anyio.Event(), anyio.Event()

        async def hear() -> Message:
            message = await receive()
            if not message.get("more_body"):
                asked.set()
            return message

        async def say(message: Message) -> None:
            answers.set()  # from now on there is nothing to cancel
            await send(message)

        async def leave_with_client() -> None:
            await asked.wait()
            await until_gone(receive)
            if not answers.is_set():
                call.cancel()

        with anyio.CancelScope() as call:
            watch = asyncio.create_task(leave_with_client())
            try:
                await app(scope, hear, say)
            finally:
                watch.cancel()

    return watched


#: How often idle agents are looked for, in seconds.
_SWEEP_S = 60.0

_SESSION_ID = "mcp-session-id"
_VERSION = "mcp-protocol-version"

#: How many sessions may be open at a time; further clients are refused until one ends.
_MAX_SESSIONS = 1000


class HttpDoor:
    """Answers requests of the protocol that come over HTTP.

    Args:
        directory: of the bus.
        max_body_bytes: the most that a request may have.
    """

    def __init__(self, directory: str, max_body_bytes: int) -> None:
        self._home = BusHandle(lambda: LocalBus.open(directory, write_timeout_s=WRITE_TIMEOUT_S))
        # The session of each client that speaks a protocol with sessions, and its last call; those
        # that have been silent longest come first.
        self._sessions: dict[str, tuple[McpSession, float]] = {}
        self._over: list[McpSession] = []
        self._manager = StreamableHTTPSessionManager(
            Protocol(self._session_of, _profile_of, _check).server(),
            json_response=True,
            session_idle_timeout=IDLE_S,
            max_request_body_size=max_body_bytes,
            max_sessions=_MAX_SESSIONS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests inside the block."""
        async with AsyncExitStack() as stack:
            stack.callback(self._home.close)
            await stack.enter_async_context(self._manager.run())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self._sweep)
            yield
            tasks.cancel_scope.cancel()

    def end_waiting(self) -> None:
        """Make waiting calls return their results so far. A signal handler may call it."""
        self._home.end_waiting()

    async def answer(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            AckbusError: there is no such profile, or the token is not good for this.
        """
        request = Request(connection, receive)
        principal = principal_of(request)
        profile = request.query_params.get("profile", DEFAULT)
        if profile not in PROFILES:
            raise InvalidInput(f"profile must be {' or '.join(PROFILES)}, not {profile[:40]!a}")
        request.state.profile = profile
        if request.method == "POST":
            body = await request.body()
            try:
                read_message(body)
            except Unreadable as error:
                await Response(error.answer, 400, media_type=JSON)(connection, receive, send)
                return
            receive = _beginning_with(body, receive)
        # The SDK lets nobody into a session that began under another name.
        of = AccessToken(token="", client_id=principal.name, scopes=[])
        connection["user"] = AuthenticatedUser(of)
        if request.method == "DELETE":  # before the answer: after that the name is free
            await self._end_of(request.headers.get(_SESSION_ID, ""), principal)
        handle = self._manager.handle_request
        # With sessions, a client may disconnect without meaning to cancel its call.
        stands_alone = request.headers.get(_VERSION) not in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
        await (while_there(handle) if stands_alone else handle)(connection, receive, send)

    async def _end_of(self, id: str, principal: Principal) -> None:
        """End a session whose client says so, if it is that client's."""
        session, _ = self._sessions.get(id, (None, 0.0))
        if session is not None and session.principal.name == principal.name:
            del self._sessions[id]
            self._over.append(session)
            await anyio.to_thread.run_sync(self._end_sessions)

    def _session_of(self, context: Any) -> McpSession:
        request: Request = context.request
        principal = principal_of(request)
        bound_to = principal.own(request.query_params.get("agent") or None)
        # Only there is an id one that the SDK gave out, and that shows the token of its owner.
        has_session = context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        if not has_session:
            return McpSession(self._home, bound_to, remembers=False, principal=principal)
        id = request.headers[_SESSION_ID]
        session, _ = self._sessions.pop(id, (None, 0.0))
        if session is not None and session.bound_to != bound_to:
            self._over.append(session)
            session = None
        if session is None:
            own = process(os.getpid())
            holder = None if own is None else by_connection(str(own), id)
            # At least half of it is left after a call, and the sweep ends the session before.
            session = McpSession(self._home, bound_to, holder=holder, lease_s=2 * IDLE_S)
        session.principal = principal  # of this call: a token of that name may have lost a right
        self._sessions[id] = session, time.monotonic()
        if len(self._sessions) > _MAX_SESSIONS:  # clients end sessions without a word to us
            self._over.append(self._sessions.pop(next(iter(self._sessions)))[0])
        return session

    async def _sweep(self) -> None:
        """Forget idle agents, now and then."""
        while True:
            await anyio.sleep(_SWEEP_S)
            before = time.monotonic() - IDLE_S
            for id in [id for id, (_, at) in self._sessions.items() if at <= before]:
                self._over.append(self._sessions.pop(id)[0])
            await anyio.to_thread.run_sync(self._end_sessions)
            await anyio.to_thread.run_sync(self._home.rest)

    def _end_sessions(self) -> None:
        """Free the names of sessions that are over."""
        while self._over:
            try:
                self._over.pop().end()
            except AckbusError as error:  # then the name is free when its lease ends
                logging.getLogger("ackbus.mcp").warning("%s", error)


def _beginning_with(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read from it, and then what comes after it."""
    read: list[Message] = [{"type": "http.request", "body": body}]

    async def again() -> Message:
        return read.pop() if read else await receive()

    return again


def _profile_of(context: Any) -> str:
    profile: str = context.request.state.profile
    return profile


def _check(context: Any, row: AccessRule) -> None:
    authorize(context.request, row)
