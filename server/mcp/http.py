"""The protocol over streamable HTTP: who asks is known by a token, an address or a session."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from fastapi import Request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from ...bus import Bus
from ...schema import InvalidInput
from ..access import Access
from ..principals import LOCAL, Forbidden, Principal, Scope
from .home import IDLE_S, Home
from .profiles import DEFAULT, PROFILES
from .protocol import Protocol
from .session import Session

#: How often it is looked who has made no call for long, in seconds.
_SWEEP_S = 60.0

_SESSION_ID = "mcp-session-id"

_NAMES = ("127.0.0.1", "localhost", "[::1]")
#: Under which names a page of this machine may ask, where no token is needed.
_OF_THIS_MACHINE = TransportSecuritySettings(
    allowed_hosts=[*_NAMES, *(f"{name}:*" for name in _NAMES)],
    allowed_origins=[f"http://{name}{port}" for name in _NAMES for port in ("", ":*")],
)


class HttpDoor:
    """Answers requests of the protocol that come over HTTP.

    Args:
        directory: of the bus.
        max_body_bytes: the most that a request may have.
    """

    def __init__(self, directory: str, max_body_bytes: int) -> None:
        self._home = Home(lambda: Bus.open(directory))
        self._security = TransportSecurityMiddleware(_OF_THIS_MACHINE)
        # The session of each client that speaks a protocol with sessions, and its last call.
        self._sessions: dict[str, tuple[Session, float]] = {}
        self._manager = StreamableHTTPSessionManager(
            Protocol(self._session_of, _profile_of, _check).server(),
            json_response=True,
            session_idle_timeout=IDLE_S,
            max_request_body_size=max_body_bytes,
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

    async def answer(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            AckbusError: there is no such profile, or the token is not good for this.
        """
        request = Request(connection, receive)
        access: Access = request.app.state.access
        principal = access.principal(request)
        if principal == LOCAL:
            refusal = await self._security.validate_request(request)
            if refusal is not None:
                await refusal(connection, receive, send)
                return
        profile = request.query_params.get("profile", DEFAULT)
        if profile not in PROFILES:
            raise InvalidInput(f"profile must be {' or '.join(PROFILES)}, not {profile[:40]!a}")
        request.state.profile = profile
        request.state.principal = principal
        # The SDK lets nobody into a session that began under another name.
        of = AccessToken(token="", client_id=principal.name, scopes=[])
        connection["user"] = AuthenticatedUser(of)
        await self._manager.handle_request(connection, receive, send)

    def _session_of(self, context: Any) -> Session:
        request: Request = context.request
        principal: Principal = request.state.principal
        named = request.query_params.get("agent") or None
        if named is not None:
            named = principal.act_as(named)
        id = request.headers.get(_SESSION_ID)
        if named or principal.agent or id is None:
            bound_to = named or principal.agent
            return Session(self._home, bound_to, remembers=False)
        session, _ = self._sessions.get(id) or (Session(self._home), 0.0)
        self._sessions[id] = session, time.monotonic()
        return session

    async def _sweep(self) -> None:
        """Forget, now and then, who has made no call for long."""
        while True:
            await anyio.sleep(_SWEEP_S)
            before = time.monotonic() - IDLE_S
            for id in [id for id, (_, at) in self._sessions.items() if at <= before]:
                del self._sessions[id]
            await anyio.to_thread.run_sync(self._home.rest)


def _profile_of(context: Any) -> str:
    profile: str = context.request.state.profile
    return profile


def _check(context: Any, scope: str) -> None:
    principal: Principal = context.request.state.principal
    if not principal.may(Scope(scope)):
        raise Forbidden(f"this token has no scope {scope!r}: ask who runs this project for one")
