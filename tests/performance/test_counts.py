"""No hot operation costs more than is on record: in steps, writes, syncs, memory; never in time.

The record is `counts.json`. What a change is meant to cost is put there with
`python tests/performance/record.py --write`, and seen in its review.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORD: dict[str, Any] = json.loads((HERE / "counts.json").read_text("utf-8"))

#: What Python allocates: it differs by a few blocks from run to run.
MEMORY = ("kept_blocks", "peak_bytes")

#: How much more than on record is no growth, as a part of it: where nothing differs, SQLite's
#: counts are exact; another release of SQLite or Python may count a little differently.
EXACT, MEMORY_NOISE, OTHER_SQLITE, OTHER_PYTHON = 0.0, 0.05, 0.1, 0.5

#: How much more memory is no growth, whatever is on record: in blocks, and in bytes.
SLACK = {"kept_blocks": 0.5, "peak_bytes": 512}

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="writes are counted by Linux"
)


def allowed(unit: str, count: float, now: dict[str, Any], record: dict[str, Any]) -> float:
    """The allowed cost of an operation, given its recorded cost."""
    if unit in MEMORY:
        part = MEMORY_NOISE if now["python"] == record["python"] else OTHER_PYTHON
        return count * (1 + part) + SLACK[unit]
    part = EXACT if now["sqlite"] == record["sqlite"] else OTHER_SQLITE
    return count * (1 + part)


def grown(now: dict[str, Any], record: dict[str, Any], operation: str) -> dict[str, str]:
    """Which counts of an operation are larger than they may be."""
    recorded = record["operations"][operation]
    return {
        unit: f"{count:g}, on record {recorded[unit]:g}"
        for unit, count in now["operations"][operation].items()
        if count > allowed(unit, recorded[unit], now, record)
    }


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    """The present cost of every operation."""
    command = [sys.executable, "-W", "ignore", str(HERE / "record.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize("operation", RECORD["operations"])
def test_nothing_costs_more_than_is_on_record(now: dict[str, Any], operation: str) -> None:
    """M-27: what each act costs is decided, and not found out later."""
    more = grown(now, RECORD, operation)
    assert not more, f"{more}; if that is meant: python tests/performance/record.py --write"


def test_every_operation_is_on_record(now: dict[str, Any]) -> None:
    assert now["operations"].keys() == RECORD["operations"].keys()


@pytest.mark.parametrize("unit", RECORD["operations"]["publish"])
def test_growth_is_noticed(unit: str) -> None:
    """One statement, write, byte or step more, or a tenth more memory."""
    before = RECORD["operations"]["poll 100"][unit]
    more = before * 1.1 + 1 if unit in MEMORY else before + 0.01
    counts = {**RECORD["operations"]["poll 100"], unit: more}
    assert list(grown(RECORD | {"operations": {"poll 100": counts}}, RECORD, "poll 100")) == [unit]


def test_shapes_of_the_hot_operations() -> None:
    """M-27: what the record must never say, whoever writes it."""
    costs = RECORD["operations"]
    for single in ("publish", "ack", "beat"):  # one statement by itself, which SQLite commits
        assert costs[single]["transactions"] == 0
        assert 1 <= costs[single]["statements"] < 1.1
    assert costs["publish"]["syncs"] < 0.1
    assert 1 <= costs["publish, durability full"]["syncs"] < 1.1
    assert costs["publish 100 blobs, for each"]["syncs"] < 1.1
    assert costs["publish 1,000, for each"]["statements"] < 1.01
    assert not any(cost["plans"] for cost in costs.values())  # none is planned anew for its values
    for reading in ("poll, nothing new", "poll 100", "claim, nothing there", "get by id", "open"):
        assert costs[reading]["transactions"] == costs[reading]["writes"] == 0
