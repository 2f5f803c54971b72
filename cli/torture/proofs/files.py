"""Proof: the file is undamaged, and every blob and segment is there and whole."""

from __future__ import annotations

from .... import bus as bus_room
from ....schema import checks_of_file, examine, file_of
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....bus import Bus


def prove_files(bus: Bus) -> Verdict:
    """Examine everything, as `bus doctor --full` does."""
    verdict = Verdict(
        "files",
        "SQLite finds no damage; every number has its message; every blob and archive segment is"
        " there, and whole",
    )
    checks = {**checks_of_file(file_of(bus), full=True), **bus_room.checks(bus, full=True)}
    for finding in examine(checks):
        verdict.expect(finding.state != "bad", f"{finding.check}: {finding.text}")
    # The doctor only warns of these: another program may leave numbers out. None did here.
    gaps = bus.log.gaps()
    verdict.expect(not gaps, f"numbers without a message: {gaps}")
    return verdict
