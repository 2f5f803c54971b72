"""Proof: nobody met an error that there should not be, a locked database least of all."""

from __future__ import annotations

from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .evidence import Evidence

#: What errors say that come of a lock that was not had.
_LOCKED = ("locked", "BusBusy", "another process has held")


def prove_agents(evidence: Evidence, fell: Sequence[str]) -> tuple[Verdict, int]:
    """Read the errors of all histories.

    Args:
        evidence: what is known of the run.
        fell: how processes ended that nobody had killed.

    Returns:
        The verdict, and how many errors are about locks.
    """
    verdict = Verdict("agents", "no process met an unexpected error, or ended by itself")
    locked = 0
    for act in evidence.acts():
        verdict.checked += 1
        if act.error is not None:
            locked += any(word in act.error for word in _LOCKED)
            verdict.fail(f"life {act.life} of {act.agent}, at {act.kind}: {act.error}")
    for text in fell:
        verdict.fail(text)
    return verdict, locked
