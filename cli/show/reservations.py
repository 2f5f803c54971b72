"""Reservations and conflicts as the commands print them. Loads only what a hook needs."""

from __future__ import annotations

from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.reservations.reservations import Conflict


def describe(conflict: Conflict) -> str:
    """Return a conflict in one line."""
    held = conflict.held
    within = "" if held.path == conflict.path else f" as {held.path}"
    why = f", {held.reason!r}" if held.reason else ""
    return (
        f"{conflict.path} is reserved by {held.agent}{within} until {format_ts(held.until_ms)}"
        f" ({held.mode}{why})"
    )


def conflict_record(conflict: Conflict) -> dict[str, object]:
    """Return a conflict as `--json` prints it."""
    path = conflict.path.encode(errors="backslashreplace").decode()  # git has names of any bytes
    return {"path": path, "held": conflict.held.record()}
