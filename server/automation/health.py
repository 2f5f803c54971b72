"""Whether the service and its bus work, for everybody who can reach the listener."""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import Any

import anyio
from fastapi import Request, Response
from pydantic import BaseModel, Field

from ...automation.status import health_of
from ...tasks.control.envelope import PROTOCOL_VERSION
from ..api.common import TheBus
from ..health import CHECK_S, Readiness, not_answering
from ..problems import documented
from ..threads import in_thread
from .common import TheConfig, open_router

router = open_router("health")


class Health(BaseModel):
    """The answer of a service that works, by a bus that can be read and written."""

    ok: bool
    status: str = Field(examples=["ok"])
    uptime_seconds: int
    queue_depth: int = Field(description="Jobs that wait or run.")
    plugins_loaded: int
    plugins_circuit_open: int = Field(description="Plugins with a breaker that is not closed.")
    config_path: str
    binary_path: str
    version: str
    protocolVersion: str = Field(description="Of PushPals' forms, for readers of its health.")


@router.head("/healthz", response_model=Health, include_in_schema=False)
@router.get("/healthz", response_model=Health, responses=documented(503))
async def healthz(request: Request, bus: TheBus, config: TheConfig) -> dict[str, Any] | Response:
    """Whether the service works, and its bus can be read and written."""
    readiness: Readiness = request.app.state.readiness
    with anyio.move_on_after(CHECK_S):
        await readiness.check()
        found = await in_thread(lambda: health_of(bus, len(config.plugins), uptime_s(request)))
        return (
            {"ok": True}
            | found
            | {
                "config_path": str(config.config.directory),
                "binary_path": sys.argv[0],
                "version": version("ackbus"),
                "protocolVersion": PROTOCOL_VERSION,
            }
        )
    return not_answering(request)


def uptime_s(request: Request) -> float:
    """Return for how long the application has been there, in seconds."""
    began_at: float = request.app.state.began_at
    return time.monotonic() - began_at
