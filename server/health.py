"""Whether the server, and the bus behind it, work."""

from __future__ import annotations

import asyncio
import os

import anyio
import anyio.to_thread
from fastapi import Request, Response
from pydantic import BaseModel, Field

from ..bus.local_bus import LocalBus
from ..schema.errors import BusUnusable
from .access.access import GuardedRouter
from .access.table import SERVER
from .problems import documented, refusal

#: How long the bus may keep a write waiting before it counts as busy, in seconds.
_WRITE_S = 1.0
#: How long the whole check may take, in seconds: a disk that hangs must not hang the client.
CHECK_S = 5.0

router = GuardedRouter(SERVER, tags=["health"])


class Health(BaseModel):
    """The answer of a working store."""

    ok: bool
    newest_seq: int = Field(description="The newest seq of the log, as the store says now.")
    protocolVersion: str | None = Field(None, description="Of PushPals' forms, if it has them.")


class Readiness:
    """Checks whether a bus can be read and written. Only the event loop may use it.

    Args:
        bus: the bus that is served.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._directory = bus.layout.directory
        self._path = bus.layout.database
        self._file = _identity(self._path)
        self._asking: asyncio.Task[int] | None = None

    async def check(self) -> int:
        """Ask the store, or join a check that is running.

        One check runs at a time, in a thread apart from those of the operations: it needs no
        token, and each check competes with the writers.

        Returns:
            The newest seq.

        Raises:
            AckbusError: the bus can't be read or can't be written.
        """
        if self._asking is None or self._asking.done():
            beside = anyio.CapacityLimiter(1)
            ask = anyio.to_thread.run_sync(self._ask, abandon_on_cancel=True, limiter=beside)
            self._asking = asyncio.ensure_future(ask)
        return await asyncio.shield(self._asking)

    def _ask(self) -> int:
        """Open the bus as a new process does, and take the write lock.

        An open connection goes on with a file that was moved or deleted, so it proves nothing.
        """
        with LocalBus.open(self._directory, write_timeout_s=_WRITE_S) as bus:
            if _identity(self._path) != self._file:
                raise BusUnusable(
                    f"{self._path} is no longer the file that is served; start the server again"
                )
            with bus.transaction():
                return bus.log.newest_seq()


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


@router.head("/healthz", response_model=Health, include_in_schema=False)
@router.get(
    "/healthz",
    response_model=Health,
    response_model_exclude_none=True,
    responses=documented(503),
)
async def healthz(request: Request) -> Health | Response:
    """Whether the bus can be read and written: asks the store, not the process."""
    readiness: Readiness = request.app.state.readiness
    with anyio.move_on_after(CHECK_S):
        protocol: str | None = request.app.state.protocol
        return Health(ok=True, newest_seq=await readiness.check(), protocolVersion=protocol)
    return not_answering(request)


def not_answering(request: Request) -> Response:
    """Return the problem that the bus is slow to answer."""
    return refusal(request, 503, "timed-out", f"the bus has not answered for {CHECK_S:g} s")
