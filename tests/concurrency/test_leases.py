"""Many processes, one lease: one holder at a time, whatever the timing."""

from pathlib import Path

import pytest

from ackbus import Bus

from .actors import Gate, StartActor, start_together

pytestmark = pytest.mark.slow

RACERS = [f"racer-{number}" for number in range(20)]


def test_of_20_racers_exactly_one_gets_the_lease(
    start: StartActor, gates: list[Gate], bus: Bus, bus_dir: Path
) -> None:
    """M-34, M-69, M-71: 10 rounds; in every second one an expired lease is in the way."""
    for number in range(0, len(gates), 2):
        assert bus.leases.acquire(f"job-{number}", "late", lease_s=0.001)
    racers = [start("racer", bus_dir, name, *(gate.path for gate in gates)) for name in RACERS]
    for number, gate in enumerate(gates):
        for racer in racers:
            racer.wait_told(2 * number + 1)
        gate.open()
    told = [racer.end()[1::2] for racer in racers]

    tokens = []
    for number, answers in enumerate(zip(*told, strict=True)):
        granted = [token for token in answers if token is not None]
        assert len(granted) == 1, f"round {number}: {len(granted)} racers were granted the lease"
        tokens += granted
        holder = bus.leases.get(f"job-{number}")
        assert holder is not None
        assert (holder.holder, holder.token) == (RACERS[answers.index(granted[0])], granted[0])
    assert tokens == sorted(set(tokens)), "tokens must grow from grant to grant"


def test_work_under_a_lease_never_overlaps(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """M-70, M-73, M-74: 8 processes, 25 turns each, on a number that two at once would lose."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    casts = [("cranker", bus_dir, name, 25, counter, gate.path) for name in RACERS[:8]]
    told = [actor.end()[1] for actor in start_together(start, gate, casts)]

    assert counter.read_text() == "200"
    assert len({token for tokens in told for token in tokens}) == 200
    assert all(tokens == sorted(tokens) for tokens in told)
    assert bus.leases.list() == []


def test_renewals_hold_against_thieves(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-70, M-73: 8 holders renew 100 times each, and each asks for all the others' leases."""
    holders = [f"holder-{number}" for number in range(8)]
    casts = [("renewer", bus_dir, name, 100, gate.path) for name in holders]
    assert [actor.end()[1] for actor in start_together(start, gate, casts)] == [0] * 8
    assert [(lease.name, lease.holder) for lease in bus.leases.list()] == [(h, h) for h in holders]
