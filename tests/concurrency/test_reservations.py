"""Several processes, one path: exactly one is granted it."""

from pathlib import Path

import pytest

from ackbus import Bus

from .actors import Gate, StartActor, start_together

pytestmark = pytest.mark.slow

ROUNDS = 200


def test_of_two_racers_exactly_one_is_granted_the_path(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """PITFALLS 5: 200 rounds, and who lost has nothing of what it asked for."""
    board = tmp_path / "board"
    board.write_bytes(bytes(2))
    casts = [
        ("reserver", bus_dir, name, place, ROUNDS, board, gate.path)
        for place, name in enumerate(("alice", "bob"))
    ]
    alice, bob = (actor.end()[1] for actor in start_together(start, gate, casts))
    assert sorted(alice + bob) == list(range(1, ROUNDS + 1))
    for name, won in (("alice", alice), ("bob", bob)):
        expected = {f"r{number}/{glob}" for number in won for glob in (f"{name}*", "*.py")}
        assert {each.path for each in bus.reservations.list(agent=name)} == expected
