"""What a run is to be: how many agents of which kind, for how long, how often one is killed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, cycle, islice

#: What an agent can be; `roles/` has a module for each.
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
        kill_every_s: how many seconds pass between two kills, on average; 0 kills nobody.
        seed: what chance is made from. It fixes what everybody chooses, not when they get to it.
    """

    agents: int
    minutes: float
    kill_every_s: float
    seed: int


def cast_of(agents: int) -> dict[str, str]:
    """Return the names of the agents, and what each of them is."""
    roles = chain(_FIRST, cycle(_OTHERS))
    return {f"{role}-{number:03}": role for number, role in enumerate(islice(roles, agents), 1)}


def named(cast: dict[str, str], role: str) -> list[str]:
    """Return the agents that have a role."""
    return [name for name, its_role in cast.items() if its_role == role]
