"""The state of the whole."""

from __future__ import annotations

from fastapi import Response

from ...tasks.control.status import system_status
from ...tasks.control.worker_table import ONLINE_MS
from ..access.access import GuardedRouter
from ..access.table import PUSHPALS
from .common import TheBus, TheSweep, ms_of, ok

router = GuardedRouter(PUSHPALS, prefix="/system")


@router.get("/status")
def show_status(
    bus: TheBus,
    sweep: TheSweep,
    ttlMs: str | None = None,
) -> Response:
    """Show workers, queues and service levels."""
    sweep.when_due()
    return ok(**system_status(bus, ms_of(ttlMs, ONLINE_MS)))
