"""`bus torture` as a user runs it: nothing is lost in some tens of kills, and all was looked at."""

from collections import Counter

from ackbus.cli.torture.history import agents_in, read_acts

from .conftest import Run

#: What each proof must have looked at, at the least, for it to mean something.
LOOKED_AT = {
    "agents": 500,
    "publishing": 50,
    "order": 100,
    "inboxes": 50,
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
    assert result["kills"] >= 20
    assert result["messages"] >= 100
    looked_at = {proof["name"]: proof["checked"] for proof in result["proofs"]}
    assert looked_at.keys() == LOOKED_AT.keys()
    assert {name: least for name, least in LOOKED_AT.items() if looked_at[name] < least} == {}


def test_every_kind_of_agent_was_killed_in_the_middle_of_its_work(run: Run) -> None:
    ends: Counter[str] = Counter()
    histories = run.place.histories
    for agent in agents_in(histories):
        lives = {act.life: act for act in read_acts(histories, agent)}  # the last act of each
        ends[agent.partition("-")[0]] += len(lives) - 1
    assert set(ends) == {"publisher", "reader", "worker", "holder", "exporter", "keeper"}
    assert min(ends.values()) >= 1


def test_json_says_what_was_measured(run: Run) -> None:
    result = run.result
    assert result["agents"] == 8
    assert result["publishes"] > 0
    assert 0 < result["publish_ms"]["p50"] <= result["publish_ms"]["max"]
    assert result["max_wal_bytes"] > 0
    assert result["stays_in"] == run.place.directory
