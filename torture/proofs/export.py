"""Proof: `bus.jsonl` is, byte for byte, what a rebuild from nothing writes."""

from __future__ import annotations

import os
from itertools import zip_longest

from ...export.jsonl.exporter import Exporter
from ...export.jsonl.replaced_file import exported_files
from ...schema.errors import AckbusError
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def prove_export(bus: Bus, aside: str) -> Verdict:
    """Put the exported files aside, rebuild them, and compare.

    Args:
        bus: the bus.
        aside: the folder where they stay if they are not the same; it must not be there.
    """
    verdict = Verdict(
        "export", "bus.jsonl and its parts are, byte for byte, what a rebuild from nothing writes"
    )
    before = _names(bus)
    os.mkdir(aside)
    for name in before:
        os.rename(os.path.join(bus.layout.directory, name), os.path.join(aside, name))
    try:
        Exporter(bus).export_once()
    except AckbusError as error:
        verdict.fail(f"the rebuild failed: {error}")
        return verdict
    after = _names(bus)
    if before != after:
        verdict.fail(f"the exporter wrote {', '.join(before)}; a rebuild writes {', '.join(after)}")
    for name in sorted({*before} & {*after}):
        verdict.checked += 1
        number = _first_difference(
            os.path.join(aside, name), os.path.join(bus.layout.directory, name)
        )
        if number is not None:
            verdict.fail(f"line {number} of {name} is not that of a rebuild; compare it in {aside}")
    return verdict


def _names(bus: Bus) -> list[str]:
    """Return the names of the exported files, and of their index."""
    names = [os.path.basename(path) for path in exported_files(bus.layout.jsonl)]
    index = "bus.index.json"
    return [*names, *([index] if os.path.exists(os.path.join(bus.layout.directory, index)) else [])]


def _first_difference(one: str, other: str) -> int | None:
    """Return the number of the first line that differs, or None."""
    with open(one, "rb") as lines, open(other, "rb") as wanted:
        for number, pair in enumerate(zip_longest(lines, wanted), 1):
            if pair[0] != pair[1]:
                return number
    return None
