"""Checks of what is exported: whether `bus.jsonl` follows the log, and no part of it is lost."""

from __future__ import annotations

import os
import time

from ..schema import holders, ok, old_programs, warn
from .exporter import MIN_PAUSE_S
from .parts import Parts
from .position import Position, Rotation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..bus import Bus
    from ..schema import Finding

#: Within which time an exporter that is behind must have got on, in seconds: it looks every 2 s.
_PATIENCE_S = 3.0

#: How many lost parts a line has.
_NAMED = 5


def checks(bus: Bus) -> dict[str, Callable[[], Finding]]:
    """Return the checks of what this room owns."""
    return {"export": lambda: _export(bus), "archiver": lambda: _archiver(bus)}


def _export(bus: Bus) -> Finding:
    position = Position(bus.database).get()
    behind = bus.log.newest_seq() - position
    running = holders(bus.layout.export_lock)
    if running and behind and not _gets_on(bus, position):
        return warn(f"{running[0]} exports, and does not get on: {behind:,} behind", "look at it")
    lost = Parts(bus.layout.directory, Rotation(bus.database).get()).lacking() if position else []
    if lost:
        names = ", ".join(lost[:_NAMED]) + (" …" if len(lost) > _NAMED else "")
        mend = "'bus export' writes all parts again"
        if running:  # it looks at them only when it starts
            mend = f"stop {running[0]}; then {mend}"
        return warn(f"not there, or not as exported: {names}", mend)
    if running:
        return ok(f"{running[0]} exports, {behind:,} behind")
    if not position:
        return ok("nothing was exported, and no exporter runs")
    if not os.path.exists(bus.layout.jsonl):
        return warn("bus.jsonl was removed", "'bus export' writes it again")
    if behind:
        return warn(
            f"bus.jsonl is {behind:,} messages behind, and no exporter runs", "run 'bus export'"
        )
    return ok("bus.jsonl has everything; no exporter runs")


def _gets_on(bus: Bus, position: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if Position(bus.database).get() > position:
            return True
        time.sleep(MIN_PAUSE_S)
    return False


def _archiver(bus: Bus) -> Finding:
    running = holders(bus.layout.archive_lock)
    old = old_programs(bus.database)
    if old:
        text = f"{old[0]} opened the bus before its upgrade: nothing can be archived"
        return warn(text, "end it, or start it again")
    return ok(f"{running[0]} is archiving" if running else "none runs")
