"""`bus torture` as a user runs it: nothing is lost in some tens of kills, and all was looked at."""

import os
from collections import Counter
from pathlib import Path

from ackbus.torture.history import agents_in

from .conftest import Run

#: What each proof must have looked at, at the least, for it to mean something.
LOOKED_AT = {
    "agents": 200,
    "publishing": 20,
    "order": 50,
    "inboxes": 30,
    "answers": 5,
    "leases": 5,
    "claims": 10,
    "jobs": 10,
    "export": 3,
    "files": 5,
    "resources": 1,
}


def test_nothing_is_lost_doubled_or_held_twice_in_some_tens_of_kills(run: Run) -> None:
    """Promises 1 to 9, 12 to 16; pitfalls 1, 4 to 6, 9, 10, 13, 22, 29."""
    result = run.result
    assert result["holds"]
    assert result["locked"] == 0
    assert result["kills"] >= 15
    assert result["acts_cut_off"] >= 5
    assert result["messages"] >= 50
    looked_at = {proof["name"]: proof["checked"] for proof in result["proofs"]}
    assert looked_at.keys() == LOOKED_AT.keys()
    assert {name: least for name, least in LOOKED_AT.items() if looked_at[name] < least} == {}


def test_every_kind_of_agent_was_killed(run: Run) -> None:
    lives: Counter[str] = Counter()
    for agent in agents_in(run.place.histories):
        lives[agent.partition("-")[0]] += len(os.listdir(Path(run.place.histories, agent))) - 1
    assert set(lives) == {"publisher", "reader", "worker", "holder", "exporter", "keeper"}
    assert min(lives.values()) >= 1


def test_json_says_what_was_measured(run: Run) -> None:
    result = run.result
    assert result["agents"] == 12
    assert result["publishes"] > 0
    assert 0 < result["publish_ms"]["p50"] <= result["publish_ms"]["max"]
    assert result["max_wal_bytes"] > 0
    assert result["stays_in"] == run.place.directory
