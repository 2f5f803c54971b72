"""Whether the server, and the bus behind it, work."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from .api.common import TheBus
from .problems import documented

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """An answer that only a store that works can give."""

    ok: bool
    newest_seq: int = Field(description="The newest seq of the log, as the store says now.")


@router.get("/healthz", responses=documented(500, 503))
def healthz(bus: TheBus) -> Health:
    """Ask the store, not the process."""
    return Health(ok=True, newest_seq=bus.log.newest_seq())
