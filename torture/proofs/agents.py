"""Proof: no process met an unexpected error, a locked database least of all."""

from __future__ import annotations

from typing import NamedTuple

from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .evidence import Evidence

#: The words of errors about a lock that was not granted.
_LOCKED = ("locked", "BusBusy", "another process has held")


class Lives(NamedTuple):
    """The result of the proof about the agents.

    Attributes:
        verdict: whether they met errors.
        locked: how many errors were about locks.
        cut_off: how many acts have no outcome, since the process was killed in them.
    """

    verdict: Verdict
    locked: int
    cut_off: int


def prove_agents(evidence: Evidence, fell: Sequence[str]) -> Lives:
    """Read all histories for errors.

    Args:
        evidence: what is known of the run.
        fell: the unexpected ends of processes.
    """
    verdict = Verdict("agents", "no process met an unexpected error, or ended by itself")
    locked = cut_off = 0
    for act in evidence.acts():
        verdict.checked += 1
        cut_off += act.ended_ns is None
        if act.error is not None:
            locked += any(word in act.error for word in _LOCKED)
            verdict.fail(f"life {act.life} of {act.agent}, at {act.kind}: {act.error}")
    for text in fell:
        verdict.fail(text)
    return Lives(verdict, locked, cut_off)
