"""Callbacks for progress that would tell nobody anything are refused before any work is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Exporter
from ackbus.bus.maintenance import Maintenance
from ackbus.bus.verification import Verification
from ackbus.errors import InvalidInput
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up


async def tell(done: int) -> None:
    raise AssertionError("it ran")


def archive(bus: Bus, folder: Path) -> None:
    with Archiver(bus) as archiver:
        archiver.archive(1, on_progress=tell)


ACTS: dict[str, Callable[[Bus, Path], Any]] = {
    "export": lambda bus, folder: Exporter(bus).export_once(progress=tell),
    "rebuild": lambda bus, folder: Exporter(bus).rebuild(progress=tell),
    "rotate": lambda bus, folder: Exporter(bus).rotate(10_000, progress=tell),
    "archive": archive,
    "back up": lambda bus, folder: back_up(bus, folder / "copy", on_progress=tell),
    "give back": lambda bus, folder: Maintenance(bus).give_back(tell),
    "chain": lambda bus, folder: bus.chain.catch_up(tell),
    "verify": lambda bus, folder: list(Verification(bus).problems(tell)),
    "search": lambda bus, folder: bus.search("word", on_progress=tell),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("act", ACTS)
def test_coroutine_function_for_progress_is_refused(bus: Bus, tmp_path: Path, act: str) -> None:
    bus.publish("note", "word", from_agent="planner")
    with pytest.raises(InvalidInput, match="progress would never run 'tell', a coroutine function"):
        ACTS[act](bus, tmp_path)
    assert not (tmp_path / "copy").exists()
    assert Exporter(bus).position == 0
    assert bus.archive.upto() == 0
