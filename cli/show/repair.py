"""The repair of a bus, part by part, with the losses of each."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict

from ...doctor.repair.repair import repair_bus
from ...schema.directory.discovery import refuse_foreign, refuse_led_away
from ...schema.directory.layout import BUS_DIRECTORY
from ...schema.errors import BusNotFound
from . import output
from .terminal import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.findings import Mended
    from ..options.common import BusPlace


def repair(place: BusPlace, backup: str | None, dry_run: bool) -> int:
    """Repair the bus, print a line for each damaged part, and return the exit code."""
    where = _directory(place)
    is_lossy = False
    count = 0
    parts = repair_bus(where, backup=backup, dry_run=dry_run)
    for mended in watched(parts):
        count += 1
        is_lossy = is_lossy or bool(mended.lost)
        output.result(asdict(mended), *_lines(mended))
        output.flush()
    if not count and not output.is_json():
        output.line("nothing is damaged; nothing was changed")
    if dry_run and count:
        output.note("nothing was changed: leave --dry-run out to repair it")
    return 1 if is_lossy else 0


def watched(parts: Iterator[Mended]) -> Iterator[Mended]:
    """Yield each part, with an activity bar until it comes: a large bus takes minutes."""
    while True:
        with waiting("repairing"):
            part = next(parts, None)
        if part is None:
            return
        yield part


def _directory(place: BusPlace) -> str:
    """Return the directory of the bus, also of one whose file is missing."""
    if place.named() is None:
        with suppress(BusNotFound):
            return place.find()[0]
        near = os.path.join(os.getcwd(), BUS_DIRECTORY)
        if os.path.isdir(near):
            refuse_foreign(near)
            refuse_led_away(near)
            return near
    return place.find()[0]


def _lines(mended: Mended) -> Iterator[str]:
    yield f"saved  {mended.part}: {mended.text}"
    if mended.lost:
        yield f"LOST   {mended.part}: {mended.lost}"
