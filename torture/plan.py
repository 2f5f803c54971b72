"""The plan of a run: its agents by role, its length, and the rate of kills."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, cycle, islice

#: The roles; `roles/` has a module for each.
PUBLISHER, READER, WORKER, HOLDER = "publisher", "reader", "worker", "holder"
EXPORTER, KEEPER = "exporter", "keeper"

#: The first agents of every run: one of each kind, and two where two are needed to compete.
_FIRST = (EXPORTER, KEEPER, PUBLISHER, READER, WORKER, WORKER, HOLDER, HOLDER)

#: The others, over and over. A bus has one exporter and one archiver at a time.
_OTHERS = (PUBLISHER, READER, PUBLISHER, WORKER, READER, PUBLISHER, HOLDER)

#: The fewest agents that a run can have.
MIN_AGENTS = len(_FIRST)

#: The order in which agents are told to end: what one leaves is there for those after it.
ENDING = ((PUBLISHER, HOLDER), (WORKER,), (READER,), (KEEPER,), (EXPORTER,))


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Attributes:
        agents: how many processes, at least `MIN_AGENTS`.
        minutes: for how long they are killed; ending and proving come on top.
        kill_every_s: the mean time between two kills, in seconds; 0: no kills.
        seed: the seed of all random choices. It fixes the choices, not their times.
    """

    agents: int
    minutes: float
    kill_every_s: float
    seed: int


def cast_of(agents: int) -> dict[str, str]:
    """Return the roles of the agents, by name."""
    roles = chain(_FIRST, cycle(_OTHERS))
    return {f"{role}-{number:03}": role for number, role in enumerate(islice(roles, agents), 1)}


def named(cast: dict[str, str], role: str) -> list[str]:
    """Return the agents that have a role."""
    return [name for name, its_role in cast.items() if its_role == role]
