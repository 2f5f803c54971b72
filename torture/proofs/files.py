"""Proof: the file is undamaged, and every blob and segment is there and whole."""

from __future__ import annotations

from ...doctor.checks.bus import checks_of_bus
from ...doctor.checks.file import checks_of_file
from ...schema.findings import examine
from ...schema.queries import file_of
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def prove_files(bus: Bus) -> Verdict:
    """Examine everything, as `bus doctor --full` does."""
    verdict = Verdict(
        "files",
        "SQLite finds no damage; every number has its message; every blob and archive segment is"
        " there, and whole",
    )
    checks = {**checks_of_file(file_of(bus), full=True), **checks_of_bus(bus, full=True)}
    for finding in examine(checks):
        verdict.expect(finding.state != "bad", f"{finding.check}: {finding.text}")
    # The doctor only warns of these: another program may leave numbers out. None did here.
    gaps = bus.log.gaps()
    verdict.expect(not gaps, f"numbers without a message: {gaps}")
    return verdict
