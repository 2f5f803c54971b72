"""Checks of what is exported: whether `bus.jsonl` follows the log, and no part of it is lost."""

from __future__ import annotations

import os
import time
from itertools import chain

from ...export.jsonl.conflict_markers import CURE, ConflictMarkers, refuse_markers
from ...export.jsonl.export_position import Position, Rotation
from ...export.jsonl.exporter import MIN_PAUSE_S
from ...export.jsonl.jsonl_file import lines_of, stamp_of
from ...export.jsonl.parts import Parts
from ...export.jsonl.replaced_file import NotImported, exported_files, last_in_log, refuse_unknown
from ...schema.directory.lock_holders import holders
from ...schema.findings import bad, ok, warn
from ..recovery.damage import ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...schema.findings import Finding

#: Within which time an exporter that is behind must have got on, in seconds: it looks every 2 s.
_PATIENCE_S = 3.0

#: How many lost parts a line has.
_NAMED = 5


def checks_of_export(bus: Bus, *, full: bool) -> dict[str, Callable[[], Finding]]:
    """Return the checks of what is exported; the full ones read every exported line."""
    return {
        "export": lambda: _export(bus),
        "bus.jsonl": lambda: _lines(bus, full),
        "archiver": lambda: _archiver(bus),
    }


def _export(bus: Bus) -> Finding:
    position = Position.of(bus).get()
    behind = _behind(bus, position)
    running = holders(bus.layout.export_lock)
    if running and behind and not _gets_on(bus, position):
        return warn(f"{running[0]} exports, and does not get on: {behind:,} behind", "look at it")
    lost = Parts(bus.layout.directory, Rotation.of(bus).get()).lacking() if position else []
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
    if stamp_of(bus.layout.jsonl) is None:
        return warn(
            "bus.jsonl is not there: it was removed, or this is a backup, which has none",
            "'bus export' writes it",
        )
    if behind:
        return warn(f"bus.jsonl is {behind:,} behind, and no exporter runs", "run 'bus export'")
    return ok("everything was exported; no exporter runs")


def _behind(bus: Bus, position: int) -> int:
    """Return how many messages are not exported; after a repair a million seqs may have none."""
    newest = bus.log.newest_seq()
    if newest <= position:  # which is below it where another bus has taken the place of this one
        return newest - position
    in_archive = (
        min(each.messages, each.last_seq - position)
        for each in bus.archive.segments()
        if each.last_seq > position
    )
    return bus.log.count(position, newest) + sum(in_archive)


def _lines(bus: Bus, full: bool) -> Finding:
    """Look for errors of the next export."""
    files = exported_files(bus.layout.jsonl)
    if not files:
        return ok("none")
    if holders(bus.layout.export_lock):
        return ok("an exporter is writing it")
    position = Position.of(bus)
    if not position.get() and not os.stat(files[-1]).st_size:
        return ok("none")  # a new bus begins with an empty one
    if full:
        return _compared(bus, files)
    if position.is_of(bus.layout.jsonl):
        return ok("as the last export left it; --full reads it")
    try:
        refuse_markers(lines_of(files[-1]))
    except ConflictMarkers as error:
        return bad(f"git conflict marker on line {error.number}", CURE)
    return warn(
        "not as the last export left it: that was stopped, or git or another program wrote it",
        "'bus export' goes on with it, or says what is in the way; so does --full",
    )


def _compared(bus: Bus, files: list[str]) -> Finding:
    try:
        refuse_unknown(bus)
    except NotImported as error:
        return bad(str(error), "'bus export' refuses it until then")
    last = last_in_log(bus, chain.from_iterable(map(lines_of, files)))
    if last is None:
        return _differing(bus)
    position = Position.of(bus).get()
    if last[0] < position:
        text = f"it ends at message {last[0]}, and was exported up to {position}"
        return bad(text, "'bus export' writes the rest")
    return ok("every line is that of the log")


def _differing(bus: Bus) -> Finding:
    """Return whether the log or the export is damaged, where that is known."""
    from .log_and_export import differences  # it asks for these checks

    found = differences(bus)
    if found.in_log:
        text = f"the log has lost or altered messages {ranges(found.in_log)}, which are whole here"
        return bad(text, "stop all programs, then 'bus doctor --repair'")
    if found.unclear:
        text = f"its lines of messages {ranges(found.unclear)} are not those of the log"
        return bad(text, "'bus doctor --repair' looks for which of the two is right")
    return warn("its lines are not those of the log", "'bus export --rebuild' writes it again")


def _gets_on(bus: Bus, position: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if Position.of(bus).get() > position:
            return True
        time.sleep(MIN_PAUSE_S)
    return False


def _archiver(bus: Bus) -> Finding:
    running = holders(bus.layout.archive_lock)
    return ok(f"{running[0]} is archiving" if running else "none runs")
