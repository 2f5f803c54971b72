"""The route of MCP in the HTTP application. The first request to it loads the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import anyio
from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..problems import problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http import HttpDoor

#: The path under which the protocol is spoken.
PATH = "/mcp"


class McpMount:
    """MCP as a part of an application; nothing where the SDK is not installed.

    Args:
        directory: of the bus.
        max_body_bytes: the most bytes of a request's body.
    """

    def __init__(self, directory: str, max_body_bytes: int) -> None:
        self._directory = directory
        self._max_body_bytes = max_body_bytes
        self._door: HttpDoor | None = None
        self._open_lock = asyncio.Lock()
        self._is_closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add_to(self, app: FastAPI) -> None:
        """Add the route to an application, if the SDK is installed."""
        if find_spec("mcp"):
            app.router.routes.append(Route(PATH, endpoint=self))

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Close MCP with the application."""
        yield
        self._is_closing.set()
        if self._task is not None:
            await self._task

    def end_waiting(self) -> None:
        """Make waiting calls return their results so far. A signal handler may call it."""
        if self._door is not None:
            self._door.end_waiting()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # GET would open a stream of the server's own messages; there are none.
        if scope["method"] not in ("POST", "DELETE"):
            refusal = problem(405, "method-not-allowed", f"{PATH} takes POST, and DELETE")
            refusal.headers["Allow"] = "POST, DELETE"
            await refusal(scope, receive, send)
            return
        async with self._open_lock:
            if self._door is None:
                self._door = await self._open()
        await self._door.answer(scope, receive, send)

    async def _open(self) -> HttpDoor:
        door = await anyio.to_thread.run_sync(self._load)
        opened = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                async with door.running():
                    opened.set_result(None)
                    await self._is_closing.wait()
            except Exception as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        # A task of its own: what the SDK opens must be closed by the task that opened it.
        self._task = asyncio.create_task(run())
        await opened
        return door

    def _load(self) -> HttpDoor:
        from .http import HttpDoor

        return HttpDoor(self._directory, self._max_body_bytes)
