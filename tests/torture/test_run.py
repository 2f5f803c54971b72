"""`bus torture` as a user runs it: nothing is lost in some tens of kills, and all was looked at."""

import json
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ackbus.torture.history import RunFiles, agents_in

#: Long enough for some tens of kills, and for every kind of act; a busy machine needs longer.
MINUTES = (0.2, 0.5, 1.5)

ROLES = {"publisher", "reader", "worker", "holder", "exporter", "keeper"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_doubled_or_held_twice_in_some_tens_of_kills(tmp_path: Path) -> None:
    """Promises 1 to 9, 12 to 16; pitfalls 1, 4 to 6, 9, 10, 13, 22, 29."""
    for minutes in MINUTES:
        files = RunFiles(str(tmp_path / f"of {minutes} min"), made=False)
        result = tortured(files, minutes)
        assert result["holds"]
        assert (result["locked"], result["agents"]) == (0, 12)
        if has_seen_much(result, files):
            break
    else:
        pytest.fail(f"too little happened: {result}")
    assert 0 < result["publish_ms"]["p50"] <= result["publish_ms"]["max"]
    assert result["max_wal_bytes"] > 0
    assert result["stays_in"] == files.directory


def tortured(files: RunFiles, minutes: float) -> Any:
    """Runs 12 agents with a kill every quarter of a second, and returns what was told of it."""
    command = (
        *("torture", files.directory, "--agents", "12", "--minutes", str(minutes)),
        *("--kill-every", "0.25", "--seed", "7", "--keep", "--json"),
    )
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "bus"), *command],
        stdout=subprocess.PIPE,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout.decode()
    return json.loads(done.stdout)


def has_seen_much(result: Any, files: RunFiles) -> bool:
    """Whether each proof looked at something, and each kind of agent was killed, some in an act."""
    kills: Counter[str] = Counter()
    for agent in agents_in(files.histories):
        lives = (int(path.stem) for path in Path(files.histories, agent).iterdir())
        kills[agent.partition("-")[0]] += max(lives) - 1
    assert set(kills) == ROLES
    return (
        result["publishes"] > 0
        and result["kills"] >= 15
        and min(kills.values()) >= 2
        and result["acts_cut_off"] > 0
        and all(proof["checked"] for proof in result["proofs"])
    )
