"""The state of the whole."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ...tasks.control.status import system_status
from ...tasks.control.worker_table import ONLINE_MS
from .common import Reader, TheBus, TheSweep, ms_of, ok

router = APIRouter(prefix="/system")


@router.get("/status")
def show_status(
    bus: TheBus,
    sweep: TheSweep,
    _: Reader,
    ttlMs: str | None = None,
) -> Response:
    """Show workers, queues and service levels."""
    sweep.when_due()
    return ok(**system_status(bus, ms_of(ttlMs, ONLINE_MS)))
